/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link: what the network between hosts gives to a plain TCP program.
 *
 *   link --rank R --np N --addresses A,B,... --port P --board PATH [--max-bytes N] [--budget-ms N]
 *
 * One process per host, connected to all others. For every size S of an allreduce it exchanges with
 * each of the others 2 S / N bytes in both directions at once, the least that an allreduce of N
 * hosts must move, and reports the time under the allreduce's name. Nothing is reduced and the
 * buffers stay in the cache, so no allreduce over the same links is faster.
 */
#define _GNU_SOURCE 1
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cases.h"
#include "measure.h"

enum { kChunk = 1 << 18, kPatience = 500 };

struct link {
  int rank;
  int size;
  int sockets[BENCH_MAX_RANKS];
  size_t bytes; /* to and from each */
  char* memory;
};

static void fail(const struct link* link, const char* what) {
  char text[128];
  snprintf(text, sizeof text, "%s: %s", what, strerror(errno));
  bench_fail("link", link->rank, text);
}

static struct sockaddr_in address_of(const struct link* link, const char* list, int rank,
                                     int port) {
  char copy[512];
  char* rest = copy;
  char* text = NULL;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(port + rank))};
  snprintf(copy, sizeof copy, "%s", list);
  for (int i = 0; i <= rank; i++) text = strsep(&rest, ",");
  if (text == NULL || inet_pton(AF_INET, text, &address.sin_addr) != 1) {
    bench_fail("link", link->rank, "--addresses has no IPv4 address for a rank");
  }
  return address;
}

static int connect_to(const struct link* link, const struct sockaddr_in* address) {
  for (int attempt = 0; attempt < kPatience; attempt++) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) fail(link, "socket");
    if (connect(fd, (const struct sockaddr*)address, sizeof *address) == 0) return fd;
    close(fd);
    usleep(20000);
  }
  fail(link, "connect");
  return -1;
}

/* The higher rank connects and says who it is. */
static void connect_all(struct link* link, const char* list, int port) {
  const struct sockaddr_in own = address_of(link, list, link->rank, port);
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener, (const struct sockaddr*)&own, sizeof own) != 0 || listen(listener, 16) != 0)
    fail(link, "listen");
  for (int peer = 0; peer < link->rank; peer++) {
    const struct sockaddr_in address = address_of(link, list, peer, port);
    link->sockets[peer] = connect_to(link, &address);
    const char me = (char)link->rank;
    if (send(link->sockets[peer], &me, 1, 0) != 1) fail(link, "send");
  }
  for (int higher = link->rank + 1; higher < link->size; higher++) {
    const int fd = accept(listener, NULL, NULL);
    char peer = 0;
    if (fd < 0 || recv(fd, &peer, 1, MSG_WAITALL) != 1) fail(link, "accept");
    link->sockets[(int)peer] = fd;
  }
  close(listener);
  for (int peer = 0; peer < link->size; peer++) {
    if (peer == link->rank) continue;
    setsockopt(link->sockets[peer], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    /* As the engine does: pacing ones halve what a link within one machine gives. */
    setsockopt(link->sockets[peer], IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
  }
}

/* Moves up to a chunk; returns what is left. */
static size_t move(const struct link* link, int fd, size_t left, int sending) {
  const size_t most = left < kChunk ? left : kChunk;
  const ssize_t moved = sending ? send(fd, link->memory, most, MSG_DONTWAIT | MSG_NOSIGNAL)
                                : recv(fd, link->memory + kChunk, most, MSG_DONTWAIT);
  if (moved < 0 && errno != EAGAIN && errno != EINTR) fail(link, sending ? "send" : "recv");
  if (moved == 0) bench_fail("link", link->rank, "a connection was closed");
  return moved < 0 ? left : left - (size_t)moved;
}

static void exchange(void* self) {
  const struct link* link = self;
  size_t to_send[BENCH_MAX_RANKS];
  size_t to_receive[BENCH_MAX_RANKS];
  for (int peer = 0; peer < link->size; peer++) {
    to_send[peer] = to_receive[peer] = peer == link->rank ? 0 : link->bytes;
  }
  for (size_t left = 1; left != 0;) {
    left = 0;
    for (int peer = 0; peer < link->size; peer++) {
      const int fd = link->sockets[peer];
      if (to_receive[peer] != 0) to_receive[peer] = move(link, fd, to_receive[peer], 0);
      if (to_send[peer] != 0) to_send[peer] = move(link, fd, to_send[peer], 1);
      left += to_receive[peer] + to_send[peer];
    }
    if (left != 0) sched_yield(); /* as the engine does while data moves */
  }
}

static void nothing(void* self) { (void)self; }

static void measure(struct link* link, bench_board* board, const bench_options* options,
                    const char* name, size_t bytes) {
  link->bytes = 2 * bytes / (size_t)link->size;
  bench_timing timing = bench_measure_touch(board, exchange, nothing, link, options->budget_ns);
  if (link->rank == 0)
    bench_print("link", name, "us", timing.median_us, timing.lowest_us, timing.samples);
}

int main(int argc, char** argv) {
  static const size_t kBytes[] = {4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
  struct link link = {.rank = atoi(bench_argument(argc, argv, "--rank", "0")),
                      .size = atoi(bench_argument(argc, argv, "--np", "2"))};
  const bench_options options = bench_options_parse(argc, argv);
  link.memory = calloc(2, kChunk);
  bench_board* board = options.board_path != NULL
                           ? bench_board_open(options.board_path, link.rank, link.size)
                           : NULL;
  if (board == NULL || link.memory == NULL)
    bench_fail("link", link.rank, "cannot open the board; give --board PATH");
  connect_all(&link, bench_argument(argc, argv, "--addresses", ""),
              atoi(bench_argument(argc, argv, "--port", "29600")));
  for (size_t i = 0; i < sizeof kBytes / sizeof *kBytes && kBytes[i] <= options.max_bytes; i++) {
    char name[64];
    snprintf(name, sizeof name, "allreduce/%zu", kBytes[i]);
    measure(&link, board, &options, name, kBytes[i]);
  }
  if (options.run_sets) {
    bench_tensor_set set;
    bench_set_resnet50(&set);
    size_t bytes = 0;
    for (size_t i = 0; i < set.tensor_count; i++) bytes += set.elements[i] * sizeof(float);
    measure(&link, board, &options, "set/resnet50", bytes);
  }
  bench_board_close(board);
  return 0;
}
