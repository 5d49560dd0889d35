"""Random C programs for the recording of cuts: structures, unions, lists on the heap, callbacks, tables of functions, copies of memory,
recursion, variables of all kinds, and noise() that differs from run to run. No program does what C leaves undefined."""

import random

HEAD = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/types.h>

struct node { long value; struct node *next, *other; unsigned char bytes[12]; int (*call)(struct node*, long); };
union word { long whole; unsigned char bytes[8]; unsigned parts[2]; struct node* node; };
struct pair { long one; int two; char text[20]; };
typedef int (*callback)(struct node*, long);
typedef long (*worker)(long, struct node*);
"""


class Program:
    """`size` functions; `threads`: as many threads run worker functions."""

    def __init__(self, seed, size=12, threads=0):
        self.random = random.Random(seed)
        self.size, self.threads = size, threads
        self.text = []

    def expression(self, depth=0):
        pick = self.random.randrange(12 if depth < 3 else 6)
        r = self.random
        if pick == 0:
            return str(r.randrange(-50, 1000))
        if pick <= 2:
            return r.choice(["a", "x", "y"])
        if pick == 3:
            return f"g{r.randrange(6)}"
        if pick == 4:
            return f"array{r.randrange(2)}[(unsigned long){r.choice(['a', 'x', 'y'])} % 16]"
        if pick == 5:
            return r.choice(["n->value", "n->bytes[3]", "own.value", "w.parts[1]", "p.one", "local[x & 7]"])
        if pick <= 8:
            return f"((long)((unsigned long){self.expression(depth + 1)} {r.choice('+-*^&|')} (unsigned long){self.expression(depth + 1)}))"
        if pick == 9:
            return f"({self.expression(depth + 1)} {r.choice(['<', '==', '>'])} {self.expression(depth + 1)})"
        if pick == 10:
            return f"({self.expression(depth + 1)} ? {self.expression(depth + 1)} : {self.expression(depth + 1)})"
        return f"(long)((unsigned long){self.expression(depth + 1)} >> {r.randrange(1, 9)})"

    def statement(self, index, depth=0):
        r, e = self.random, self.expression
        later = range(index + 1, self.size)
        choices = [
            lambda: f"g{r.randrange(6)} = {e()};",
            lambda: f"{r.choice(['x', 'y'])} = {e()};",
            lambda: f"array{r.randrange(2)}[(unsigned long){e()} % 16] = {e()};",
            lambda: f"n->value += {e()};",
            lambda: f"n->bytes[{r.randrange(12)}] = (unsigned char){e()};",
            lambda: f"own.value ^= {e()}; last = &shared{r.randrange(2)};",
            lambda: f"w.whole = {e()}; x ^= w.parts[0];",
            lambda: f"local[(unsigned long){e()} % 8] = {e()};",
            lambda: f"memcpy(n->bytes, own.bytes, {r.randrange(1, 12)});",
            lambda: f"memcpy(&shared{r.randrange(2)}, n, offsetof_call);",
            lambda: f"memset(local, (int)({e()} & 127), sizeof local); memmove(local + 1, local, 3 * sizeof *local);",
            lambda: f"shared{r.randrange(2)} = *n;",
            lambda: f"for (int i = 0; i < {r.randrange(1, 5)}; i++) {{ {self.statement(index, depth + 1)} }}" if depth < 2 else ";",
            lambda: f"if ({e()}) {{ {self.statement(index, depth + 1)} }} else {{ {self.statement(index, depth + 1)} }}" if depth < 2 else ";",
            lambda: "list = push(list, x);",
            lambda: "if (list) { struct node* old = list; list = old->next; x += old->value; free(old); }",
            lambda: f"for (struct node* each = list; each; each = each->next) each->value += {e()};",
            lambda: "x ^= noise();",
            lambda: f"y += read(noise_file, n->bytes, {r.randrange(1, 12)});",
            lambda: 'snprintf(p.text, sizeof p.text, "%lx", (unsigned long)x); y += p.text[2] + (long)strlen(p.text);',
            lambda: "text = realloc(text, 16 + (size_t)(x & 63)); memset(text, (int)(y & 63) + 1, 15); text[15] = 0; x += (long)strlen(text);",
            lambda: "x += last->value; last->value = y;",
            lambda: f"if (n->call) y += n->call(&own, {e()});",
            lambda: f"n->call = calls[(unsigned long){e()} % 3];",
            lambda: f"x += apply(calls[(unsigned long){e()} % 3], n);",
            lambda: "qsort(local, 8, sizeof *local, compare);" if r.random() < 0.2 else ";",
            lambda: f"pp = &{r.choice(['own.value', 'g1', 'array0[3]', 'n->value', 'local[2]'])}; *pp += 3; x ^= *pp;",
            lambda: f"__atomic_fetch_add(&g{r.randrange(6)}, {r.randrange(9)}, __ATOMIC_SEQ_CST);",
            lambda: "statics++; x += statics;",
        ]
        if later:
            choices += [lambda: f"x += f{r.choice(later)}({e()}, {r.choice(['n', '&own', '&shared0', 'last'])});"] * 4
            choices += [lambda: f"{{ worker f = workers[{r.choice(later)}]; y ^= f({e()}, n); }}"]
            choices += [lambda: f"p = s{r.choice(later)}(p, {e()});"] * 2
        return r.choice(choices)()

    def function(self, index):
        body = "\n  ".join(self.statement(index) for _ in range(self.random.randrange(3, 9)))
        start = ("  if (--budget < 0) return {0};\n  long x = a, y = 1, *pp = &x; long local[8] = {{0}}; union word w = {{0}};\n"
                 "  struct node own = {{.value = a}}; (void)pp;\n")
        self.text.append(f"long f{index}(long a, struct node* n) {{\n  static long statics;\n{start.format('a')}  struct pair p = {{0}};\n  {body}\n"
                         "  return x + y + w.whole + p.one + local[3] + own.value + statics;\n}\n")
        body = "\n  ".join(self.statement(index) for _ in range(self.random.randrange(1, 4)))
        self.text.append(f"struct pair s{index}(struct pair p, long a) {{\n  static long statics;\n{start.format('p')}  struct node* n = &shared1;\n  {body}\n"
                         "  p.one ^= x + statics; p.two += (int)y; p.text[1] = 'x'; return p;\n}\n")

    def source(self):
        prototypes = "".join(f"long f{i}(long, struct node*); struct pair s{i}(struct pair, long);\n" for i in range(self.size))
        table = ", ".join(f"f{i}" for i in range(self.size))
        parts = [HEAD, prototypes, """
#define offsetof_call __builtin_offsetof(struct node, call)
long g0 = 1, g1 = 2, g2, g3, g4, g5;
long array0[16], array1[16];
struct node shared0, shared1, *last = &shared0, *list;
static int budget = 3000;
static char* text;
int noise_file;
int open_noise(void);
int c0(struct node*, long); int c1(struct node*, long); int c2(struct node*, long);
callback calls[3] = {c0, c1, c2};
worker workers[] = {""", table, """};
long noise(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (random() ^ now.tv_nsec) & 0xffff;
}
struct node* push(struct node* before, long value) {
  struct node* made = calloc(1, sizeof *made);
  made->value = value; made->next = before; made->other = last == &shared0 ? made : 0;
  return made;
}
int compare(const void* a, const void* b) { long x = *(const long*)a, y = *(const long*)b; return (x > y) - (x < y); }
int apply(callback call, struct node* n) { return call ? call(n, n->value & 255) : 7; }
int c0(struct node* n, long v) { n->value += v; return (int)(v & 15); }
int c1(struct node* n, long v) { g2 ^= v + n->bytes[1]; n->other = list; return (int)(g2 & 31); }
int c2(struct node* n, long v) { array1[v & 15] += n->value; return n->call == c1; }
"""]
        for index in range(self.size):
            self.function(index)
        roots = "".join(f"    x += f{i % self.size}(x & 0xfff, {self.random.choice(['&shared0', '&shared1', '&mine'])});\n" for i in range(3))
        main = ("\nint main(void) {\n  struct node mine = {0};\n  long x = 0;\n  noise_file = open_noise();\n  srandom((unsigned)time(0) ^ (unsigned)getpid());\n"
                f"  for (int round = 0; round < 6; round++) {{\n    budget = 300;\n    x ^= noise();\n{roots}  }}\n"
                '  printf("%ld %ld\\n", x, g0 ^ g1 ^ g2 ^ array0[3]);\n  return 0;\n}\n')
        opener = "#include <fcntl.h>\nint open_noise(void) { return open(\"/dev/urandom\", O_RDONLY); }\n"
        return "".join(parts) + "\n".join(self.text) + opener + main
