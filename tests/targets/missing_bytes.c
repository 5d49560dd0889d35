// Receives messages of which a recording keeps the first 32 bytes only, and does with the rest what programs do with
// messages. What the bytes were decides what the program does next, so a recording of what it does says something about
// them. Usage: missing_bytes PORT FILE. A client sends messages, each as long as its first two bytes
// say behind a head of 32 bytes, and gets an answer to each.
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { kHead = 32, kMost = 4096 };
struct message {
  uint16_t length;  // of the body
  char kind[14];
  uint32_t check;
  char rest[kHead - 20];
  unsigned char body[kMost];
};

static int out;  // where the program's doings can be seen in the recording, as arguments of its calls

// A number in the body says how far to go in a file.
static void on_seek(const struct message* m) {
  uint32_t place;
  memcpy(&place, m->body + 4, sizeof place);
  lseek(out, place, SEEK_SET);
}

// The same as text: "move 1234\n".
static void on_text(const struct message* m) {
  const char* digits = strchr((const char*)m->body, ' ');
  if (digits && memcmp(m->body, "move", 4) == 0) lseek(out, strtol(digits + 1, NULL, 10), SEEK_SET);
}

// Each byte is one of a few orders.
static void on_orders(const struct message* m) {
  for (unsigned i = 0; i < m->length; i++) switch (m->body[i]) {
      case 'p': getppid(); break;
      case 'u': getuid(); break;
      case 'e': geteuid(); break;
      case 'g': getgid(); break;
      case 'G': getegid(); break;
      default: return;
    }
}

// A checksum that the head has: of all orders of these bytes each would do.
static void on_sum(const struct message* m) {
  uint32_t sum = 0;
  for (unsigned i = 0; i < m->length; i++) sum = sum * 31 + m->body[i];
  if (sum == m->check) getuid();
  else getgid();
}

// 64 bytes are encrypted with a key that is in the head, and decrypted they are a text that the program knows.
static void on_cipher(const struct message* m) {
  static const char known[] = "The quick brown fox jumps over the lazy dog, and then once more";
  char plain[sizeof known];
  for (unsigned i = 0; i < sizeof known; i++) plain[i] = (char)(m->body[i] ^ (m->check >> i % 24));
  if (memcmp(plain, known, sizeof known) == 0) getuid();
  else getgid();
}

// A word is looked up, and what is found is what the program does.
static const struct {
  const char* word;
  int place;
} table[] = {{"north", 101}, {"east", 202}, {"south", 303}, {"west", 404}, {"up", 505}, {"down", 606}};
static void on_word(const struct message* m) {
  char word[16] = {0};
  memcpy(word, m->body, 15);
  word[strcspn(word, " ")] = 0;
  for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
    if (strcmp(word, table[i].word) == 0) lseek(out, table[i].place, SEEK_SET);
}

// The body is passed on and never looked at.
static unsigned char kept[kMost];
static void on_copy(const struct message* m) {
  memcpy(kept, m->body, m->length);
  if (write(out, kept, m->length) != m->length) exit(1);
}

// How long what follows is. The answer "g" asks for it.
static void on_length(int client, const struct message* m) {
  uint16_t length;
  memcpy(&length, m->body + 8, sizeof length);
  if (length > kMost || send(client, "g", 1, 0) != 1 || recv(client, kept, length, MSG_WAITALL) != length) exit(1);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  struct sockaddr_in at = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1])), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  if (bind(listener, (struct sockaddr*)&at, sizeof at) != 0 || listen(listener, 1) != 0) return 1;
  FILE* file = fopen(argv[2], "w+");
  if (!file) return 1;
  out = fileno(file);
  puts("listening");
  fflush(stdout);
  const int client = accept(listener, NULL, NULL);
  static struct message m;
  for (;;) {
    // A message in one call, of which the recording keeps the first bytes.
    const ssize_t n = recv(client, &m, sizeof m, 0);
    if (n < kHead || n != kHead + m.length) return 0;
    if (strcmp(m.kind, "seek") == 0) on_seek(&m);
    else if (strcmp(m.kind, "text") == 0) on_text(&m);
    else if (strcmp(m.kind, "orders") == 0) on_orders(&m);
    else if (strcmp(m.kind, "sum") == 0) on_sum(&m);
    else if (strcmp(m.kind, "cipher") == 0) on_cipher(&m);
    else if (strcmp(m.kind, "word") == 0) on_word(&m);
    else if (strcmp(m.kind, "copy") == 0) on_copy(&m);
    else if (strcmp(m.kind, "length") == 0) on_length(client, &m);
    else return 0;
    if (send(client, "k", 1, 0) != 1) return 1;
  }
}
