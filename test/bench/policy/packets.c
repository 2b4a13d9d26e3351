/*
 * Sends bursts between two pods and prints what one packet, or one connection, of each burst took, in nanoseconds. On veth pairs the kernel
 * carries a packet from socket to socket within send(2).
 *
 *   packets serve PORT                     accepts, reads a byte, closes
 *   packets udp|tcp ADDRESS PORT COUNT BURSTS
 */
#include <arpa/inet.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void serve(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  int one = 1;
  /* Nobody reads what comes by UDP; it ends at the socket. */
  int datagrams = socket(AF_INET, SOCK_DGRAM, 0);
  if (bind(datagrams, (struct sockaddr *)&address, sizeof address)) err(1, "bind");
  int server = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(server, (struct sockaddr *)&address, sizeof address) || listen(server, 512)) err(1, "listen");
  puts("ready");
  fflush(stdout);
  for (;;) {
    char byte;
    int connection = accept(server, NULL, NULL);
    if (connection < 0) continue;
    if (read(connection, &byte, 1) < 0) warn("read");
    close(connection);
  }
}

static void connect_once(const struct sockaddr_in *address) {
  char byte = 0;
  int client = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(client, (const struct sockaddr *)address, sizeof *address)) err(1, "connect");
  if (send(client, &byte, 1, 0) != 1) err(1, "send");
  /* The server closes first. */
  if (recv(client, &byte, 1, 0) < 0) err(1, "recv");
  close(client);
}

int main(int count, char **values) {
  if (count == 3 && strcmp(values[1], "serve") == 0) serve(atoi(values[2]));
  if (count != 6) errx(2, "packets serve PORT | packets udp|tcp ADDRESS PORT COUNT BURSTS");
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(values[3]))};
  inet_pton(AF_INET, values[2], &address.sin_addr);
  int packets = atoi(values[4]), bursts = atoi(values[5]), is_udp = strcmp(values[1], "udp") == 0;
  int client = socket(AF_INET, SOCK_DGRAM, 0);
  if (is_udp && connect(client, (struct sockaddr *)&address, sizeof address)) err(1, "connect");
  for (int burst = 0; burst < bursts; burst++) {
    long long began = now();
    for (int packet = 0; packet < packets; packet++) {
      if (!is_udp) connect_once(&address);
      else if (send(client, "0123456789", 10, 0) < 0) warn("send");
    }
    printf("%lld\n", (now() - began) / packets);
  }
  return 0;
}
