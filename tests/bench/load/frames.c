#include "frames.h"

#include <string.h>

#define PROTOCOL_ID 0x01
#define LENGTH_IN_THREE_OCTETS 0x01

/* The fewest bytes of fields that a client must be able to index; 0 for kinds it does not read. */
static size_t fields_bytes_min(uint8_t kind)
{
    switch (kind) {
    case FRAME_CONNACK: return 1;
    case FRAME_REGISTER: return 4;
    case FRAME_REGACK:
    case FRAME_PUBACK: return 5;
    case FRAME_PUBLISH: return PUBLISH_FIELDS_BYTES;
    case FRAME_SUBACK: return 6;
    case FRAME_PUBREC:
    case FRAME_PUBREL:
    case FRAME_PUBCOMP: return 2;
    default: return 0;
    }
}

bool frame_read(const uint8_t *datagram, size_t bytes, struct frame *frame)
{
    size_t length_octets = 1;
    if (bytes < 2)
        return false;
    size_t length = datagram[0];
    if (length == LENGTH_IN_THREE_OCTETS) {
        if (bytes < 4)
            return false;
        length = get16(datagram + 1);
        length_octets = 3;
    }
    if (length != bytes || length < length_octets + 1)
        return false;
    frame->kind = (enum frame_kind)datagram[length_octets];
    frame->fields = datagram + length_octets + 1;
    frame->fields_bytes = length - length_octets - 1;
    return frame->fields_bytes >= fields_bytes_min(datagram[length_octets]);
}

uint8_t qos_flag(int qos)
{
    return (uint8_t)((qos < 0 ? 3 : qos) << 5);
}

int qos_of(uint8_t flags)
{
    int bits = (flags & FLAG_QOS) >> 5;
    return bits == 3 ? -1 : bits;
}

/* Length and kind; returns where the fields begin. */
static size_t write_header(uint8_t *to, enum frame_kind kind, size_t fields_bytes)
{
    size_t octets = 1;
    if (fields_bytes + 2 > 255) {
        to[0] = LENGTH_IN_THREE_OCTETS;
        put16(to + 1, (uint16_t)(fields_bytes + 4));
        octets = 3;
    } else {
        to[0] = (uint8_t)(fields_bytes + 2);
    }
    to[octets] = (uint8_t)kind;
    return octets + 1;
}

size_t frame_connect(uint8_t *to, const char *client_id, unsigned keep_alive_s)
{
    size_t id_bytes = strlen(client_id);
    size_t at = write_header(to, FRAME_CONNECT, 4 + id_bytes);
    to[at] = FLAG_CLEAN_SESSION;
    to[at + 1] = PROTOCOL_ID;
    put16(to + at + 2, (uint16_t)keep_alive_s);
    memcpy(to + at + 4, client_id, id_bytes);
    return at + 4 + id_bytes;
}

size_t frame_register(uint8_t *to, uint16_t message_id, const char *topic)
{
    size_t topic_bytes = strlen(topic);
    size_t at = write_header(to, FRAME_REGISTER, 4 + topic_bytes);
    put16(to + at, 0);
    put16(to + at + 2, message_id);
    memcpy(to + at + 4, topic, topic_bytes);
    return at + 4 + topic_bytes;
}

size_t frame_subscribe(uint8_t *to, int qos, uint16_t message_id, const char *topic)
{
    size_t topic_bytes = strlen(topic);
    size_t at = write_header(to, FRAME_SUBSCRIBE, 3 + topic_bytes);
    to[at] = qos_flag(qos) | FLAG_TOPIC_NAME;
    put16(to + at + 1, message_id);
    memcpy(to + at + 3, topic, topic_bytes);
    return at + 3 + topic_bytes;
}

size_t frame_disconnect(uint8_t *to, unsigned duration_s)
{
    size_t at = write_header(to, FRAME_DISCONNECT, 2);
    put16(to + at, (uint16_t)duration_s);
    return at + 2;
}

size_t frame_pingreq(uint8_t *to, const char *client_id)
{
    size_t id_bytes = strlen(client_id);
    size_t at = write_header(to, FRAME_PINGREQ, id_bytes);
    memcpy(to + at, client_id, id_bytes);
    return at + id_bytes;
}

size_t frame_pingresp(uint8_t *to)
{
    return write_header(to, FRAME_PINGRESP, 0);
}

size_t frame_answer(uint8_t *to, enum frame_kind kind, uint16_t topic_id, uint16_t message_id)
{
    size_t at = write_header(to, kind, 5);
    put16(to + at, topic_id);
    put16(to + at + 2, message_id);
    to[at + 4] = 0; /* accepted */
    return at + 5;
}

size_t frame_handshake(uint8_t *to, enum frame_kind kind, uint16_t message_id)
{
    size_t at = write_header(to, kind, 2);
    put16(to + at, message_id);
    return at + 2;
}

size_t frame_publish_head(uint8_t *to, uint8_t flags, uint16_t topic_id, uint16_t message_id,
                          size_t payload_bytes)
{
    size_t at = write_header(to, FRAME_PUBLISH, PUBLISH_FIELDS_BYTES + payload_bytes);
    to[at] = flags;
    put16(to + at + 1, topic_id);
    put16(to + at + 3, message_id);
    return at + PUBLISH_FIELDS_BYTES;
}
