/* MQTT-SN 1.2 frames as a client writes and reads them: layout only (sections in brackets). */
#ifndef LOAD_FRAMES_H
#define LOAD_FRAMES_H

#include "base.h"

#define FRAME_BYTES_MAX 65535
#define HEADER_BYTES_MAX 4
#define PUBLISH_FIELDS_BYTES 5
#define CLIENT_ID_BYTES_MAX 23

enum frame_kind {                                                                     /* 5.2.2 */
    FRAME_CONNECT = 0x04, FRAME_CONNACK = 0x05, FRAME_REGISTER = 0x0a, FRAME_REGACK = 0x0b,
    FRAME_PUBLISH = 0x0c, FRAME_PUBACK = 0x0d, FRAME_PUBCOMP = 0x0e, FRAME_PUBREC = 0x0f,
    FRAME_PUBREL = 0x10, FRAME_SUBSCRIBE = 0x12, FRAME_SUBACK = 0x13, FRAME_PINGREQ = 0x16,
    FRAME_PINGRESP = 0x17, FRAME_DISCONNECT = 0x18,
};

enum frame_flag {                                                                     /* 5.3.4 */
    FLAG_DUP = 0x80, FLAG_QOS = 0x60, FLAG_CLEAN_SESSION = 0x04,
    FLAG_TOPIC_NAME = 0x00, FLAG_TOPIC_PREDEFINED = 0x01, FLAG_TOPIC_SHORT = 0x02,
};

/* One received datagram, taken apart. */
struct frame {
    enum frame_kind kind;
    const uint8_t *fields;
    size_t fields_bytes;
};

/* False when the datagram is no frame, or too short for the fields its kind must have. */
bool frame_read(const uint8_t *datagram, size_t bytes, struct frame *frame);

uint8_t qos_flag(int qos);
int qos_of(uint8_t flags);

/* Each writes a whole datagram and returns its length. */
size_t frame_connect(uint8_t *to, const char *client_id, unsigned keep_alive_s);      /* 5.4.4 */
size_t frame_register(uint8_t *to, uint16_t message_id, const char *topic);          /* 5.4.10 */
size_t frame_subscribe(uint8_t *to, int qos, uint16_t message_id, const char *topic); /* 5.4.15 */
size_t frame_disconnect(uint8_t *to, unsigned duration_s);                           /* 5.4.21 */
size_t frame_pingreq(uint8_t *to, const char *client_id);                              /* 5.4.19 */
size_t frame_pingresp(uint8_t *to);                                                  /* 5.4.20 */
/* REGACK and PUBACK have the same fields. */
size_t frame_answer(uint8_t *to, enum frame_kind kind, uint16_t topic_id, uint16_t message_id);
/* PUBREC, PUBREL and PUBCOMP. */
size_t frame_handshake(uint8_t *to, enum frame_kind kind, uint16_t message_id);
/* Everything before the payload of a PUBLISH, which the caller writes behind it. */   /* 5.4.12 */
size_t frame_publish_head(uint8_t *to, uint8_t flags, uint16_t topic_id, uint16_t message_id,
                          size_t payload_bytes);

#endif
