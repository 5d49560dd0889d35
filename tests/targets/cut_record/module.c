#include "module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int module_limit;

static struct entry* entries;
static unsigned long history = 5381;
static int handled;
static long totals[8];

static struct entry* find(const char* name) {
  for (struct entry* each = entries; each; each = each->next)
    if (strcmp(each->name, name) == 0) return each;
  struct entry* made = malloc(sizeof *made);
  memset(made, 0, sizeof *made);
  strncpy(made->name, name, sizeof made->name - 1);
  made->next = entries;
  entries = made;
  return made;
}

static void note(unsigned long value) { history = history * 33 + value; }

struct answer module_handle(struct request* request) {
  struct answer answer = {.status = 200};
  char name[24];
  memcpy(name, request->name, sizeof name);
  struct entry* entry = find(name);
  for (size_t i = 0; i < request->length; i++) note((unsigned char)request->body[i]);
  entry->total += request->score(request);
  entry->count++;
  if (entry->count > module_limit) answer.status = 429;
  totals[handled++ % 8] = entry->total;
  answer.total = entry->total;
  snprintf(answer.text, sizeof answer.text, "%s %d", name, entry->count);
  note((unsigned long)entry->total);
  note((unsigned long)answer.status);
  return answer;
}

void module_visit(visitor visit, void* state) {
  for (struct entry* each = entries; each; each = each->next) visit(each, state);
  qsort(totals, 8, sizeof *totals, module_compare);
  note((unsigned long)totals[3]);
}

int module_compare(const void* a, const void* b) {
  const long one = *(const long*)a, two = *(const long*)b;
  return (one > two) - (one < two);
}

void module_end(void) {
  while (entries) {
    struct entry* next = entries->next;
    note((unsigned long)entries->count);
    free(entries);
    entries = next;
  }
}
