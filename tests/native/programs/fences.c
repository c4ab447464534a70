/* Waits for fences of its own: one that signals, one that fails, one that never comes. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "neural_networks.h"

int make_fence(int* signal) { /* returns the end for createFromSyncFenceFd */
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) return -1;
  *signal = ends[1];
  return ends[0];
}

void signal_fence(int signal) {
  (void)!write(signal, "\1", 1); /* close without this fails the fence */
  close(signal);
}

static ANeuralNetworksCompilation* compilation;

/* Starts the sum of 1 and 2 after a fence of its own. Returns the end of it. */
static ANeuralNetworksEvent* started(uint64_t timeout_ns, int* signal, ANeuralNetworksExecution** execution,
                                     float* terms, float* sum) {
  const int fence = make_fence(signal);
  ANeuralNetworksEvent *event, *end;
  OK(ANeuralNetworksEvent_createFromSyncFenceFd(fence, &event));
  close(fence); /* the event has a duplicate */
  *execution = prepared(compilation, terms, sum, 1, 2);
  if (timeout_ns) OK(ANeuralNetworksExecution_setTimeout(*execution, timeout_ns));
  const ANeuralNetworksEvent* dependencies[] = {event};
  OK(ANeuralNetworksExecution_startComputeWithDependencies(*execution, dependencies, 1, 0, &end));
  ANeuralNetworksEvent_free(event);
  return end;
}

static void finish(ANeuralNetworksEvent* end, ANeuralNetworksExecution* execution, int result, const char* what) {
  EXPECT(result, ANeuralNetworksEvent_wait(end));
  ANeuralNetworksEvent_free(end);
  ANeuralNetworksExecution_free(execution);
  puts(what);
}

int main(void) {
  float terms[2 * LENGTH], sum[LENGTH];
  ANeuralNetworksModel* model = addition();
  ANeuralNetworksDevice* device;
  OK(ANeuralNetworks_getDevice(0, &device));
  const ANeuralNetworksDevice* devices[] = {device};
  OK(ANeuralNetworksCompilation_createForDevices(model, devices, 1, &compilation));
  OK(ANeuralNetworksCompilation_finish(compilation));
  ANeuralNetworksModel_free(model);

  ANeuralNetworksExecution* execution;
  int signal;
  ANeuralNetworksEvent* end = started(0, &signal, &execution, terms, sum);
  signal_fence(signal);
  finish(end, execution, NO_ERROR, "signalled");
  if (sum[0] != 3) return 1;

  end = started(0, &signal, &execution, terms, sum);
  close(signal);
  finish(end, execution, OP_FAILED, "failed");

  end = started(2000000000, &signal, &execution, terms, sum);
  finish(end, execution, MISSED_DEADLINE_TRANSIENT, "never came");
  close(signal);

  ANeuralNetworksEvent* event;
  EXPECT(BAD_DATA, ANeuralNetworksEvent_createFromSyncFenceFd(eventfd(0, 0), &event));

  /* Of the type of an argument only the dimensions count. */
  const uint32_t dimensions[] = {LENGTH};
  const OperandType other = {FLOAT32_TENSOR, 1, dimensions, 0.5F, 3};
  for (int round = 0; round < 2; ++round) {
    OK(ANeuralNetworksExecution_create(compilation, &execution));
    OK(ANeuralNetworksExecution_setInput(execution, 0, &other, terms, BYTES));
    OK(ANeuralNetworksExecution_setInput(execution, 1, &other, terms + LENGTH, BYTES));
    OK(ANeuralNetworksExecution_setOutput(execution, 0, &other, sum, BYTES));
    OK(ANeuralNetworksExecution_compute(execution));
    require_sum(sum, 3, "dimensions only");
    ANeuralNetworksExecution_free(execution);
  }
  ANeuralNetworksCompilation_free(compilation);
  return 0;
}
