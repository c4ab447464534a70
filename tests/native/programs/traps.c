/* What programs do wrong, or do to the library: each ends in a result code, and harms nothing. */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "neural_networks.h"

static float terms[2 * LENGTH], sum[LENGTH];

static void add(ANeuralNetworksCompilation* compilation, const char* way) {
  ANeuralNetworksExecution* execution = prepared(compilation, terms, sum, 1, 2);
  OK(ANeuralNetworksExecution_compute(execution));
  require_sum(sum, 3, way);
  ANeuralNetworksExecution_free(execution);
}

/* Handles that are freed, of another kind, or not given out. */
static void handles(void) {
  ANeuralNetworksModel* model = addition();
  ANeuralNetworksCompilation* compilation = compiled(model);
  ANeuralNetworksCompilation* made;
  ANeuralNetworksModel_free(model);
  ANeuralNetworksModel_free(model);
  EXPECT(UNEXPECTED_NULL, ANeuralNetworksModel_finish(model));
  EXPECT(UNEXPECTED_NULL, ANeuralNetworksCompilation_create(model, &made));
  EXPECT(UNEXPECTED_NULL, ANeuralNetworksModel_finish((ANeuralNetworksModel*)compilation));
  EXPECT(UNEXPECTED_NULL, ANeuralNetworksModel_finish((ANeuralNetworksModel*)&model));
  EXPECT(UNEXPECTED_NULL, ANeuralNetworksModel_finish(NULL));
  EXPECT(UNEXPECTED_NULL, ANeuralNetworksModel_create(NULL));
  add(compilation, "after misuse");
  ANeuralNetworksExecution* execution = prepared(compilation, terms, sum, 2, 2);
  ANeuralNetworksCompilation_free(compilation); /* before what was made of it */
  OK(ANeuralNetworksExecution_compute(execution));
  require_sum(sum, 4, "an execution outlives its handle's compilation");
  ANeuralNetworksExecution_free(execution);
}

/* What is made of the program's signals and descriptors. */
static void signals(void) {
  ANeuralNetworksModel* model = addition();
  add(compiled(model), "once");
  struct sigaction interrupt, pipe;
  sigaction(SIGINT, NULL, &interrupt);
  sigaction(SIGPIPE, NULL, &pipe);
  if (interrupt.sa_handler != SIG_DFL || pipe.sa_handler != SIG_DFL) exit(1);
  printf("signals are as they were\n");
}

/* A child has sessions of its own; its parent's objects are dead in it, and go on in the parent. */
static void forks(void) {
  ANeuralNetworksModel* model = addition();
  ANeuralNetworksCompilation* compilation = compiled(model);
  const pid_t child = fork();
  if (!child) {
    ANeuralNetworksExecution* execution;
    EXPECT(DEAD_OBJECT, ANeuralNetworksExecution_create(compilation, &execution));
    ANeuralNetworksCompilation_free(compilation);
    add(compiled(addition()), "in the child");
    exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  if (status) exit(1);
  add(compilation, "in the parent");
}

/* Says when a model is compiled, and is told by a line of input when the framework is gone, and when it is back. */
static void outlives(void) {
  ANeuralNetworksModel* model = addition();
  ANeuralNetworksCompilation *compilation = compiled(model), *again;
  add(compilation, "before");
  ANeuralNetworksExecution* execution = prepared(compilation, terms, sum, 1, 2);
  getchar();
  EXPECT(DEAD_OBJECT, ANeuralNetworksExecution_compute(execution));
  OK(ANeuralNetworksCompilation_create(model, &again));
  EXPECT(DEAD_OBJECT, ANeuralNetworksCompilation_finish(again));
  ANeuralNetworksCompilation_free(again);
  printf("without\n");
  fflush(stdout);
  getchar();
  add(compiled(model), "again");
}

/* Operands of an OEM are for operations of that OEM: the NDK's own refuse them when they are added. */
static void oem(void) {
  enum { TENSOR_OEM_BYTE = 10001, OEM_OPERATION = 10000, FLOOR = 7 };
  const uint32_t lengths[] = {2, 2}, input = 0, output = 1;
  for (int which = 0; which < 2; ++which) {
    const OperandType types[] = {{which ? FLOAT32_TENSOR : TENSOR_OEM_BYTE, 2, lengths, 0, 0},
                                 {which ? TENSOR_OEM_BYTE : FLOAT32_TENSOR, 2, lengths, 0, 0}};
    ANeuralNetworksModel* model;
    OK(ANeuralNetworksModel_create(&model));
    for (int index = 0; index < 2; ++index) OK(ANeuralNetworksModel_addOperand(model, &types[index]));
    EXPECT(BAD_DATA, ANeuralNetworksModel_addOperation(model, FLOOR, 1, &input, 1, &output));
    OK(ANeuralNetworksModel_addOperation(model, OEM_OPERATION, 1, &input, 1, &output));
    ANeuralNetworksModel_free(model);
  }
  printf("refused\n");
}

int main(int count, char** arguments) {
  const struct {
    const char* name;
    void (*run)(void);
  } traps[] = {{"handles", handles}, {"signals", signals}, {"forks", forks}, {"outlives", outlives}, {"oem", oem}};
  for (size_t index = 0; index < sizeof traps / sizeof *traps; ++index)
    if (count == 2 && !strcmp(arguments[1], traps[index].name)) return traps[index].run(), 0;
  return 2;
}
