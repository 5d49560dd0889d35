// The libraries that load_variants loads, by VARIANT: 1, 2 or 3.
#if VARIANT == 1
int chosen = 10;
#elif VARIANT == 2
long before_it[500] = {1};  // the variables stand elsewhere
long chosen = 20;
#else
struct chosen {
  char name[8];
  short value;
} chosen_there = {"third", 30};
short chosen = 30;
#endif

#if VARIANT == 2
__attribute__((noinline)) static long shifted(int k) {  // and so does the code
  long made = 0;
  for (int i = 0; i < k; i++) made += before_it[i] * k;
  return made;
}
#endif

long choose(int k) {
#if VARIANT == 2
  chosen += 100 * shifted(1);
#elif VARIANT == 3
  chosen_there.value += 1000;
  chosen += 1000;
#else
  chosen += 1;
#endif
  return chosen + k;
}
