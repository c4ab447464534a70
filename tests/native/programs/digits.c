/* Classifies images of digits: digits WEIGHTS IMAGES, files of floats. It prints each digit, and waits for the end of its input. */
#include "neural_networks.h"

enum { INT32_VECTOR = 4, BOOLEAN = 6, FLOAT32 = 0 };
enum { CONV_2D = 3, FULLY_CONNECTED = 9, MAX_POOL_2D = 17, RESHAPE = 22, SOFTMAX = 25 };
enum { PIXELS = 64, DIGITS = 10, RELU = 1, SAME = 1, VALID = 2 };

static ANeuralNetworksModel* model;
static uint32_t operands;
static FILE* weights;

static uint32_t operand(int32_t type, uint32_t rank, const uint32_t* dimensions, const void* value, size_t size) {
  const OperandType declared = {type, rank, dimensions, 0, 0};
  OK(ANeuralNetworksModel_addOperand(model, &declared));
  if (value) OK(ANeuralNetworksModel_setOperandValue(model, (int32_t)operands, value, size));
  return operands++;
}

static uint32_t number(int32_t value) { return operand(INT32_SCALAR, 0, NULL, &value, sizeof value); }

/* The next weights of the file, which stay where they are: the model refers to them. */
static uint32_t constant(uint32_t rank, const uint32_t* dimensions) {
  size_t count = 1;
  for (uint32_t axis = 0; axis < rank; ++axis) count *= dimensions[axis];
  float* values = malloc(count * sizeof *values);
  if (!values || fread(values, sizeof *values, count, weights) != count) exit(1);
  return operand(FLOAT32_TENSOR, rank, dimensions, values, count * sizeof *values);
}

static uint32_t operation(int32_t type, uint32_t count, const uint32_t* inputs, uint32_t rank,
                          const uint32_t* dimensions) {
  const uint32_t output = operand(FLOAT32_TENSOR, rank, dimensions, NULL, 0);
  OK(ANeuralNetworksModel_addOperation(model, type, count, inputs, 1, &output));
  return output;
}

static uint32_t convolution(uint32_t input, uint32_t size, uint32_t depth, uint32_t channels) {
  const uint32_t filter[] = {channels, 3, 3, depth}, result[] = {1, size, size, channels};
  const uint32_t kernel = constant(4, filter), bias = constant(1, &channels);
  const uint32_t inputs[] = {input, kernel, bias, number(SAME), number(1), number(1), number(RELU)};
  return operation(CONV_2D, 7, inputs, 4, result);
}

static ANeuralNetworksModel* network(void) {
  const uint32_t image[] = {1, 8, 8, 1}, pooled[] = {1, 4, 4, 16}, flat[] = {1, 384}, rank = 2;
  const uint32_t matrix[] = {DIGITS, 384}, digits[] = {1, DIGITS}, classes = DIGITS;
  const int32_t shape[] = {1, 384};
  const float beta = 1;
  OK(ANeuralNetworksModel_create(&model));
  const uint32_t input = operand(FLOAT32_TENSOR, 4, image, NULL, 0);
  const uint32_t first = convolution(convolution(input, 8, 1, 12), 8, 12, 16);
  const uint32_t pool[] = {first, number(VALID), number(2), number(2), number(2), number(2), number(0)};
  const uint32_t last = convolution(operation(MAX_POOL_2D, 7, pool, 4, pooled), 4, 16, 24);
  const uint32_t reshape[] = {last, operand(INT32_VECTOR, 1, &rank, shape, sizeof shape)};
  const uint32_t flattened = operation(RESHAPE, 2, reshape, 2, flat);
  const uint32_t kernel = constant(2, matrix), bias = constant(1, &classes);
  const uint32_t dense[] = {flattened, kernel, bias, number(0)};
  const uint32_t sums = operation(FULLY_CONNECTED, 4, dense, 2, digits);
  const uint32_t softmax[] = {sums, operand(FLOAT32, 0, NULL, &beta, sizeof beta)};
  const uint32_t output = operation(SOFTMAX, 2, softmax, 2, digits);
  OK(ANeuralNetworksModel_identifyInputsAndOutputs(model, 1, &input, 1, &output));
  OK(ANeuralNetworksModel_relaxComputationFloat32toFloat16(model, true));
  OK(ANeuralNetworksModel_finish(model));
  return model;
}

static void classify(ANeuralNetworksCompilation* compilation, const float* image) {
  float found[DIGITS];
  int best = 0;
  ANeuralNetworksExecution* execution;
  OK(ANeuralNetworksExecution_create(compilation, &execution));
  OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, image, PIXELS * sizeof *image));
  OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, found, sizeof found));
  OK(ANeuralNetworksExecution_compute(execution));
  ANeuralNetworksExecution_free(execution);
  for (int digit = 1; digit < DIGITS; ++digit)
    if (found[digit] > found[best]) best = digit;
  printf("%d\n", best);
}

int main(int count, char** arguments) {
  float image[PIXELS];
  FILE* images = count == 3 ? fopen(arguments[2], "rb") : NULL;
  weights = images ? fopen(arguments[1], "rb") : NULL;
  if (!weights) return 2;
  ANeuralNetworksCompilation* compilation = compiled(network());
  while (fread(image, sizeof image, 1, images) == 1) classify(compilation, image);
  printf("done\n");
  fflush(stdout);
  while (getchar() != EOF) continue;
  ANeuralNetworksCompilation_free(compilation);
  return 0;
}
