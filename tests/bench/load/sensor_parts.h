/* What sensor.c (sockets, connecting, time) and sensor_messages.c (publishing, being delivered to)
 * ask of each other. */
#ifndef LOAD_SENSOR_PARTS_H
#define LOAD_SENSOR_PARTS_H

#include "frames.h"
#include "sensor.h"

/* Of sensor.c. */
unsigned sensor_index(const struct bench *bench, const struct sensor *sensor);
void client_id_of(const struct bench *bench, const struct sensor *sensor, char *client_id);
uint16_t next_message_id(struct sensor *sensor);
void send_frame(struct bench *bench, const struct sensor *sensor, const uint8_t *frame,
                size_t bytes);
/* Sets the time of the next retransmission. */
void wait_for_answer(struct bench *bench, struct sensor *sensor);

/* Of sensor_messages.c: a frame of the named kind has come. */
void after_puback(struct bench *bench, struct sensor *sensor, const uint8_t *fields);
void after_pubrec(struct bench *bench, struct sensor *sensor, uint16_t message_id);
void after_pubcomp(struct bench *bench, struct sensor *sensor, uint16_t message_id);
void after_publish(struct bench *bench, struct sensor *sensor, const struct frame *publish);
void after_pubrel(struct bench *bench, struct sensor *sensor, uint16_t message_id);
/* The gateway agrees that the sensor sleeps. */
void after_sleep(struct bench *bench, struct sensor *sensor);
void after_pingresp(struct bench *bench, struct sensor *sensor);
/* The acknowledgement is overdue. */
void retry_message(struct bench *bench, struct sensor *sensor);

#endif
