/* The functions of the NDK's NeuralNetworks API that the programs call, in words of their own. */
#ifndef NNHAL_TESTS_NEURAL_NETWORKS_H_
#define NNHAL_TESTS_NEURAL_NETWORKS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct ANeuralNetworksModel ANeuralNetworksModel;
typedef struct ANeuralNetworksCompilation ANeuralNetworksCompilation;
typedef struct ANeuralNetworksExecution ANeuralNetworksExecution;
typedef struct ANeuralNetworksBurst ANeuralNetworksBurst;
typedef struct ANeuralNetworksEvent ANeuralNetworksEvent;
typedef struct ANeuralNetworksMemory ANeuralNetworksMemory;
typedef struct ANeuralNetworksDevice ANeuralNetworksDevice;
typedef struct {
  int32_t type;
  uint32_t dimensionCount;
  const uint32_t* dimensions;
  float scale;
  int32_t zeroPoint;
} OperandType;

enum { FLOAT32_TENSOR = 3, INT32_SCALAR = 1, ADD = 0 };
enum { NO_ERROR = 0, UNEXPECTED_NULL = 3, BAD_DATA = 4, OP_FAILED = 5, BAD_STATE = 6, MISSED_DEADLINE_TRANSIENT = 10, DEAD_OBJECT = 14 };

int ANeuralNetworks_getDeviceCount(uint32_t*);
int ANeuralNetworks_getDevice(uint32_t, ANeuralNetworksDevice**);
int ANeuralNetworksDevice_getName(const ANeuralNetworksDevice*, const char**);
int ANeuralNetworksModel_create(ANeuralNetworksModel**);
void ANeuralNetworksModel_free(ANeuralNetworksModel*);
int ANeuralNetworksModel_finish(ANeuralNetworksModel*);
int ANeuralNetworksModel_addOperand(ANeuralNetworksModel*, const OperandType*);
int ANeuralNetworksModel_setOperandValue(ANeuralNetworksModel*, int32_t, const void*, size_t);
int ANeuralNetworksModel_addOperation(ANeuralNetworksModel*, int32_t, uint32_t, const uint32_t*, uint32_t,
                                      const uint32_t*);
int ANeuralNetworksModel_identifyInputsAndOutputs(ANeuralNetworksModel*, uint32_t, const uint32_t*, uint32_t,
                                                  const uint32_t*);
int ANeuralNetworksModel_relaxComputationFloat32toFloat16(ANeuralNetworksModel*, bool);
int ANeuralNetworksCompilation_create(ANeuralNetworksModel*, ANeuralNetworksCompilation**);
int ANeuralNetworksCompilation_createForDevices(ANeuralNetworksModel*, const ANeuralNetworksDevice* const*, uint32_t,
                                                ANeuralNetworksCompilation**);
void ANeuralNetworksCompilation_free(ANeuralNetworksCompilation*);
int ANeuralNetworksCompilation_finish(ANeuralNetworksCompilation*);
int ANeuralNetworksExecution_create(ANeuralNetworksCompilation*, ANeuralNetworksExecution**);
void ANeuralNetworksExecution_free(ANeuralNetworksExecution*);
int ANeuralNetworksExecution_setInput(ANeuralNetworksExecution*, int32_t, const OperandType*, const void*, size_t);
int ANeuralNetworksExecution_setOutput(ANeuralNetworksExecution*, int32_t, const OperandType*, void*, size_t);
int ANeuralNetworksExecution_setInputFromMemory(ANeuralNetworksExecution*, int32_t, const OperandType*,
                                                const ANeuralNetworksMemory*, size_t, size_t);
int ANeuralNetworksExecution_setOutputFromMemory(ANeuralNetworksExecution*, int32_t, const OperandType*,
                                                 const ANeuralNetworksMemory*, size_t, size_t);
int ANeuralNetworksExecution_setReusable(ANeuralNetworksExecution*, bool);
int ANeuralNetworksExecution_setTimeout(ANeuralNetworksExecution*, uint64_t);
int ANeuralNetworksExecution_compute(ANeuralNetworksExecution*);
int ANeuralNetworksExecution_burstCompute(ANeuralNetworksExecution*, ANeuralNetworksBurst*);
int ANeuralNetworksExecution_startCompute(ANeuralNetworksExecution*, ANeuralNetworksEvent**);
int ANeuralNetworksExecution_startComputeWithDependencies(ANeuralNetworksExecution*, const ANeuralNetworksEvent* const*,
                                                          uint32_t, uint64_t, ANeuralNetworksEvent**);
int ANeuralNetworksBurst_create(ANeuralNetworksCompilation*, ANeuralNetworksBurst**);
void ANeuralNetworksBurst_free(ANeuralNetworksBurst*);
int ANeuralNetworksEvent_createFromSyncFenceFd(int, ANeuralNetworksEvent**);
int ANeuralNetworksEvent_wait(ANeuralNetworksEvent*);
void ANeuralNetworksEvent_free(ANeuralNetworksEvent*);
int ANeuralNetworksEvent_getSyncFenceFd(const ANeuralNetworksEvent*, int*);
int ANeuralNetworksMemory_createFromFd(size_t, int, int, size_t, ANeuralNetworksMemory**);
void ANeuralNetworksMemory_free(ANeuralNetworksMemory*);

/* Ends the program unless a call ended so. */
#define EXPECT(expected, call)                                                                                     \
  do {                                                                                                             \
    const int result_ = (call);                                                                                    \
    if (result_ != (expected)) {                                                                                   \
      fprintf(stderr, "%s:%d: %s: result %d, expected %d\n", __FILE__, __LINE__, #call, result_, (int)(expected)); \
      exit(1);                                                                                                     \
    }                                                                                                              \
  } while (0)
#define OK(call) EXPECT(NO_ERROR, call)

enum { LENGTH = 8, BYTES = LENGTH * sizeof(float) };

/* The sum of two vectors of LENGTH. */
static inline ANeuralNetworksModel* addition(void) {
  const uint32_t dimensions[] = {LENGTH};
  const OperandType vector = {FLOAT32_TENSOR, 1, dimensions, 0, 0}, scalar = {INT32_SCALAR, 0, NULL, 0, 0};
  const int32_t none = 0;
  const uint32_t inputs[] = {0, 1, 2}, output = 3;
  ANeuralNetworksModel* model;
  OK(ANeuralNetworksModel_create(&model));
  OK(ANeuralNetworksModel_addOperand(model, &vector));
  OK(ANeuralNetworksModel_addOperand(model, &vector));
  OK(ANeuralNetworksModel_addOperand(model, &scalar));
  OK(ANeuralNetworksModel_addOperand(model, &vector));
  OK(ANeuralNetworksModel_setOperandValue(model, 2, &none, sizeof none));
  OK(ANeuralNetworksModel_addOperation(model, ADD, 3, inputs, 1, &output));
  OK(ANeuralNetworksModel_identifyInputsAndOutputs(model, 2, inputs, 1, &output));
  OK(ANeuralNetworksModel_finish(model));
  return model;
}

static inline ANeuralNetworksCompilation* compiled(ANeuralNetworksModel* model) {
  ANeuralNetworksCompilation* compilation;
  OK(ANeuralNetworksCompilation_create(model, &compilation));
  OK(ANeuralNetworksCompilation_finish(compilation));
  return compilation;
}

/* An execution whose terms are all `first` and all `second`. */
static inline ANeuralNetworksExecution* prepared(ANeuralNetworksCompilation* compilation, float* terms, float* sum,
                                                 float first, float second) {
  ANeuralNetworksExecution* execution;
  for (int index = 0; index < LENGTH; ++index) {
    terms[index] = first;
    terms[LENGTH + index] = second;
    sum[index] = -1;
  }
  OK(ANeuralNetworksExecution_create(compilation, &execution));
  OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, terms, BYTES));
  OK(ANeuralNetworksExecution_setInput(execution, 1, NULL, terms + LENGTH, BYTES));
  OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, sum, BYTES));
  return execution;
}

static inline void require_sum(const float* sum, float expected, const char* way) {
  for (int index = 0; index < LENGTH; ++index)
    if (sum[index] != expected) {
      fprintf(stderr, "%s: element %d is %g, expected %g\n", way, index, sum[index], expected);
      exit(1);
    }
  printf("%s\n", way);
  fflush(stdout);
}

#endif
