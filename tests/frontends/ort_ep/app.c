/* A program without Python: runs a model of one input and one output with the provider, in several threads.
 *
 *     app LIBONNXRUNTIME PROVIDER MODEL INPUT OUTPUT THREADS RUNS
 *
 * It reads 64 floats from stdin, and writes the 10 of the first run to stdout. All other runs must answer the same.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "NnhalExecutionProvider"
enum { IN = 64, OUT = 10, MOST = 16 };

typedef void *Status;
typedef struct { const void *const *(*api)(uint32_t); } Base;
static const void *const *api;

/* A function by its place in the table. */
#define AT(place, ...) ((Status(*)(__VA_ARGS__))api[place])
#define RELEASE(place, what) ((void (*)(void *))api[place])(what)
#define OK(call) check(call, #call)

static void check(Status status, const char *call) {
  if (!status) return;
  fprintf(stderr, "%s: %s\n", call, ((const char *(*)(Status))api[2])(status));
  exit(1);
}

static void *session, *memory;
static const char *input, *output;
static float given[IN], expected[OUT];
static int runs;

static void run(float *answer) {
  const int64_t shape[] = {1, 1, 8, 8};
  void *in = NULL, *out = NULL;
  float *values;
  OK(AT(49, void *, void *, size_t, const int64_t *, size_t, int, void **)(memory, given, sizeof given, shape, 4, 1, &in));
  OK(AT(9, void *, void *, const char **, void **, size_t, const char **, size_t, void **)(session, NULL, &input, &in, 1,
                                                                                          &output, 1, &out));
  OK(AT(51, void *, float **)(out, &values));
  memcpy(answer, values, sizeof expected);
  RELEASE(96, out);
  RELEASE(96, in);
}

static void *work(void *wrong) {
  float answer[OUT];
  for (int i = 0; i < runs; i++) {
    run(answer);
    *(int *)wrong += memcmp(answer, expected, sizeof answer) != 0;
  }
  return NULL;
}

int main(int count, char **arguments) {
  if (count != 8) return 2;
  void *runtime = dlopen(arguments[1], RTLD_NOW);
  if (!runtime) return fprintf(stderr, "%s\n", dlerror()), 1;
  api = ((const Base *(*)(void))dlsym(runtime, "OrtGetApiBase"))()->api(24);
  input = arguments[4], output = arguments[5], runs = atoi(arguments[7]);
  const int threads = atoi(arguments[6]);
  if (threads > MOST || fread(given, sizeof *given, IN, stdin) != IN) return 2;

  void *env, *options;
  OK(AT(3, int, const char *, void **)(3, "app", &env));
  OK(AT(69, int, int, void **)(0, 0, &memory));
  OK(AT(10, void **)(&options));
  OK(AT(301, void *, const char *, const char *)(env, "nnhal", arguments[2]));
  const void *const *all, *device = NULL;
  size_t number;
  OK(AT(303, void *, const void *const **, size_t *)(env, &all, &number));
  for (size_t i = number; i-- > 0;)
    if (!strcmp(((const char *(*)(const void *))api[312])(all[i]), NAME)) device = all[i];
  if (!device) return fprintf(stderr, "no devices\n"), 1;
  OK(AT(304, void *, void *, const void *const *, size_t, const char *const *, const char *const *, size_t)(
      options, env, &device, 1, NULL, NULL, 0));
  OK(AT(7, void *, const char *, void *, void **)(env, arguments[3], options, &session));

  run(expected);
  pthread_t ids[MOST];
  int wrong[MOST] = {0}, sum = 0;
  for (int i = 0; i < threads; i++) pthread_create(&ids[i], NULL, work, &wrong[i]);
  for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL), sum += wrong[i];
  RELEASE(95, session);
  RELEASE(100, options);
  OK(AT(302, void *, const char *)(env, "nnhal"));
  RELEASE(94, memory);
  RELEASE(92, env);
  fwrite(expected, sizeof *expected, OUT, stdout);
  return sum ? fprintf(stderr, "%d wrong answers\n", sum), 1 : 0;
}
