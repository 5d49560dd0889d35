// The module of the server (server.c) that replays by itself. Everything else of the program is outside.
#pragma once

#include <stddef.h>

struct request {
  int number;
  char name[24];
  size_t length;
  char* body;                               // memory of the outside
  long (*score)(const struct request* of);  // a function outside
};

struct entry {
  struct entry* next;
  char name[24];
  long total;
  int count;
};

struct answer {
  int status;
  long total;
  char text[32];
};

typedef void (*visitor)(const struct entry* entry, void* state);

extern int module_limit;  // the server writes it

struct answer module_handle(struct request* request);
void module_visit(visitor visit, void* state);
int module_compare(const void* a, const void* b);
void module_end(void);
