// A ZeroMQ service and its clients.
//
//   zeromq serve PORT WORKERS      a ROUTER on loopback with two I/O threads, worker threads behind it, a PUB on PORT + 1 that
//                                  tells each answer; ends on the request "end"
//   zeromq ask PORT CLIENTS COUNT  client threads, each with COUNT requests whose answers it checks; then "end"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

enum { kSize = 4096 };

#define CHECK(what)                                                     \
  do {                                                                  \
    if (!(what)) {                                                      \
      fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, zmq_strerror(zmq_errno())); \
      exit(1);                                                          \
    }                                                                   \
  } while (0)

static void* context;
static int port;

static void* open_socket(int type, const char* address, int bind) {
  void* socket = zmq_socket(context, type);
  CHECK(socket && (bind ? zmq_bind(socket, address) : zmq_connect(socket, address)) == 0);
  return socket;
}

// Answers with the bytes in reverse order. Ends with the context.
static void* work(void* unused) {
  void* socket = open_socket(ZMQ_REP, "inproc://work", 0);
  void* news = open_socket(ZMQ_PUSH, "inproc://news", 0);
  char request[kSize], answer[kSize];
  for (int size; (size = zmq_recv(socket, request, kSize, 0)) >= 0;) {
    for (int i = 0; i < size; i++) answer[i] = request[size - 1 - i];
    CHECK(zmq_send(socket, answer, (size_t)size, 0) == size);
    CHECK(zmq_send(news, answer, (size_t)size, 0) == size);
  }
  CHECK(zmq_errno() == ETERM);
  int none = 0;
  zmq_setsockopt(news, ZMQ_LINGER, &none, sizeof none);
  zmq_close(news);
  zmq_close(socket);
  return unused;
}

// All parts of a message from one socket to another; true if its last part is "end".
static int pass(void* from, void* to) {
  int more = 1, ends = 0;
  while (more) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    CHECK(zmq_msg_recv(&part, from, 0) >= 0);
    more = zmq_msg_more(&part);
    ends = !more && zmq_msg_size(&part) == 3 && memcmp(zmq_msg_data(&part), "end", 3) == 0;
    CHECK(zmq_msg_send(&part, to, more ? ZMQ_SNDMORE : 0) >= 0);
  }
  return ends;
}

static int serve(int workers) {
  char address[64], publish[64];
  snprintf(address, sizeof address, "tcp://127.0.0.1:%d", port);
  snprintf(publish, sizeof publish, "tcp://127.0.0.1:%d", port + 1);
  void* front = open_socket(ZMQ_ROUTER, address, 1);
  void* back = open_socket(ZMQ_DEALER, "inproc://work", 1);
  void* news = open_socket(ZMQ_PULL, "inproc://news", 1);
  void* publisher = open_socket(ZMQ_PUB, publish, 1);
  pthread_t threads[64];
  for (int i = 0; i < workers; i++) CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
  long count = 0;
  for (int ends = 0, answered = 0; !ends || !answered;) {
    zmq_pollitem_t items[] = {{front, 0, ZMQ_POLLIN, 0}, {back, 0, ZMQ_POLLIN, 0}, {news, 0, ZMQ_POLLIN, 0}};
    CHECK(zmq_poll(items, 3, -1) > 0);
    if (items[0].revents) ends |= pass(front, back), count++;
    if (items[1].revents) pass(back, front), answered = ends;
    if (items[2].revents) pass(news, publisher);
  }
  zmq_close(front);
  zmq_close(back);
  zmq_close(news);
  zmq_close(publisher);
  zmq_ctx_term(context);
  for (int i = 0; i < workers; i++) pthread_join(threads[i], NULL);
  printf("%ld requests\n", count);
  return 0;
}

static long requests;

static void* ask(void* number) {
  char address[64], request[kSize], answer[kSize];
  snprintf(address, sizeof address, "tcp://127.0.0.1:%d", port);
  void* socket = open_socket(ZMQ_REQ, address, 0);
  for (long i = 0; i < requests; i++) {
    int size = snprintf(request, kSize, "%ld of %ld %0*d", i, (long)number, (int)(i * 37 % 3000), 0);
    CHECK(zmq_send(socket, request, (size_t)size, 0) == size);
    CHECK(zmq_recv(socket, answer, kSize, 0) == size);
    for (int k = 0; k < size; k++) CHECK(answer[k] == request[size - 1 - k]);
  }
  zmq_close(socket);
  return NULL;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  port = atoi(argv[2]);
  context = zmq_ctx_new();
  CHECK(context && zmq_ctx_set(context, ZMQ_IO_THREADS, 2) == 0);
  int threads = atoi(argv[3]);
  if (strcmp(argv[1], "serve") == 0) return serve(threads);
  requests = atol(argv[4]);
  pthread_t clients[64];
  for (long i = 0; i < threads; i++) CHECK(pthread_create(&clients[i], NULL, ask, (void*)i) == 0);
  for (int i = 0; i < threads; i++) pthread_join(clients[i], NULL);
  char address[64], answer[8];
  snprintf(address, sizeof address, "tcp://127.0.0.1:%d", port);
  void* last = open_socket(ZMQ_REQ, address, 0);
  CHECK(zmq_send(last, "end", 3, 0) == 3 && zmq_recv(last, answer, sizeof answer, 0) == 3);
  zmq_close(last);
  zmq_ctx_term(context);
  return 0;
}
