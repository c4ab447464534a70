/* What the programs share. */
#ifndef NNHAL_TESTS_NEURAL_NETWORKS_H_
#define NNHAL_TESTS_NEURAL_NETWORKS_H_

#include <nnhal_native/neural_networks.h>
#include <stdio.h>
#include <stdlib.h>

typedef ANeuralNetworksOperandType OperandType;

enum { FLOAT32_TENSOR = 3, INT32_SCALAR = 1, ADD = 0 };
enum { NO_ERROR = 0, UNEXPECTED_NULL = 3, BAD_DATA = 4, OP_FAILED = 5, BAD_STATE = 6, MISSED_DEADLINE_TRANSIENT = 10, DEAD_OBJECT = 14 };

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
