#define _GNU_SOURCE
#include "echo.h"

#include "process.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define BATCH 64
#define DATAGRAM_BYTES_MAX 2048
#define UNDER_WAY_MAX 128
/* What an MQTT-SN PUBLISH has around its payload: datagrams are as long as in the other runs. */
#define PUBLISH_OVERHEAD_BYTES 7
#define SOCKET_BUFFER_BYTES (4 << 20)
/* A dropped datagram is replaced after this long. */
#define RECEIVE_TIMEOUT_US 100000

struct batch {
    struct mmsghdr messages[BATCH];
    struct iovec slices[BATCH];
    struct sockaddr_in addresses[BATCH];
    uint8_t bytes[BATCH][DATAGRAM_BYTES_MAX];
};

static void prepare(struct batch *batch, bool with_addresses)
{
    for (int index = 0; index < BATCH; index++) {
        batch->slices[index] = (struct iovec){batch->bytes[index], DATAGRAM_BYTES_MAX};
        batch->messages[index].msg_hdr.msg_iov = &batch->slices[index];
        batch->messages[index].msg_hdr.msg_iovlen = 1;
        if (with_addresses) {
            batch->messages[index].msg_hdr.msg_name = &batch->addresses[index];
            batch->messages[index].msg_hdr.msg_namelen = sizeof *batch->addresses;
        }
    }
}

static int open_socket(struct sockaddr_in *address)
{
    int buffer_bytes = SOCKET_BUFFER_BYTES;
    socklen_t address_bytes = sizeof *address;
    *address = (struct sockaddr_in){.sin_family = AF_INET};
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)address, address_bytes) != 0)
        fatal_errno("socket of the echo");
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
    if (getsockname(fd, (struct sockaddr *)address, &address_bytes) != 0)
        fatal_errno("getsockname");
    return fd;
}

static void serve(int fd)
{
    struct batch *batch = allocate(1, sizeof *batch);
    prepare(batch, true);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        int count = recvmmsg(fd, batch->messages, BATCH, MSG_WAITFORONE, NULL);
        for (int index = 0; index < count; index++)
            batch->slices[index].iov_len = batch->messages[index].msg_len;
        if (count > 0)
            sendmmsg(fd, batch->messages, (unsigned)count, 0);
        for (int index = 0; index < count; index++)
            batch->slices[index].iov_len = DATAGRAM_BYTES_MAX;
    }
}

static void send_some(int fd, struct batch *batch, int count, size_t bytes)
{
    for (int index = 0; index < count; index++)
        batch->slices[index].iov_len = bytes;
    sendmmsg(fd, batch->messages, (unsigned)count, 0);
}

static uint64_t exchange(int fd, const struct options *options)
{
    struct batch *out = allocate(1, sizeof *out);
    struct batch *in = allocate(1, sizeof *in);
    size_t bytes = options->payload_bytes + PUBLISH_OVERHEAD_BYTES;
    uint64_t echoes = 0;
    uint64_t end = now_ns() + ns_from_seconds(options->seconds);
    if (bytes > DATAGRAM_BYTES_MAX)
        bytes = DATAGRAM_BYTES_MAX;
    prepare(out, false);
    prepare(in, false);
    for (int sent = 0; sent < UNDER_WAY_MAX; sent += BATCH)
        send_some(fd, out, BATCH, bytes);
    while (now_ns() < end) {
        int count = recvmmsg(fd, in->messages, BATCH, MSG_WAITFORONE, NULL);
        if (count > 0)
            echoes += (uint64_t)count;
        send_some(fd, out, count > 0 ? count : BATCH, bytes);
    }
    free(out);
    free(in);
    return echoes;
}

struct echo_result run_echo(const struct options *options)
{
    struct sockaddr_in server_address;
    struct sockaddr_in client_address;
    struct timeval timeout = {0, RECEIVE_TIMEOUT_US};
    int server = open_socket(&server_address);
    int client = open_socket(&client_address);
    if (connect(client, (struct sockaddr *)&server_address, sizeof server_address) != 0)
        fatal_errno("connect of the echo");
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    pid_t pid = fork();
    if (pid < 0)
        fatal_errno("fork");
    if (pid == 0)
        serve(server);
    double cpu_before_s = process_usage(pid).cpu_s;
    uint64_t began = now_ns();
    uint64_t echoes = exchange(client, options);
    double seconds = (double)(now_ns() - began) / (double)NS_PER_S;
    double cpu_s = process_usage(pid).cpu_s - cpu_before_s;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return (struct echo_result){
        .echoes_per_s = (double)echoes / seconds,
        .server_cpu_us_per_echo = echoes ? cpu_s * 1e6 / (double)echoes : 0,
    };
}
