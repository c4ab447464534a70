/* Adds by each way of executing, in memory of each kind, and in threads. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "neural_networks.h"

static ANeuralNetworksCompilation* compilation;

static void* in_a_thread(void* number) {
  float terms[2 * LENGTH], sum[LENGTH];
  for (int round = 0; round < 50; ++round) {
    ANeuralNetworksExecution* execution = prepared(compilation, terms, sum, (float)(intptr_t)number, (float)round);
    OK(ANeuralNetworksExecution_compute(execution));
    if (sum[LENGTH - 1] != (float)((intptr_t)number + round)) exit(1);
    ANeuralNetworksExecution_free(execution);
  }
  return NULL;
}

int main(void) {
  float terms[2 * LENGTH], sum[LENGTH], other_terms[2 * LENGTH], other_sum[LENGTH];
  uint32_t count;
  OK(ANeuralNetworks_getDeviceCount(&count));
  for (uint32_t index = 0; index < count; ++index) {
    ANeuralNetworksDevice* device;
    const char* name;
    OK(ANeuralNetworks_getDevice(index, &device));
    OK(ANeuralNetworksDevice_getName(device, &name));
    printf("device %s\n", name);
  }
  ANeuralNetworksModel* model = addition();
  compilation = compiled(model);
  ANeuralNetworksModel_free(model);

  ANeuralNetworksExecution* execution = prepared(compilation, terms, sum, 1, 2);
  OK(ANeuralNetworksExecution_compute(execution));
  require_sum(sum, 3, "compute");
  EXPECT(BAD_STATE, ANeuralNetworksExecution_compute(execution));
  ANeuralNetworksExecution_free(execution);

  execution = prepared(compilation, terms, sum, 2, 2);
  OK(ANeuralNetworksExecution_setReusable(execution, true));
  OK(ANeuralNetworksExecution_compute(execution));
  require_sum(sum, 4, "reusable");
  terms[0] = 7; /* a buffer is read when it is computed */
  OK(ANeuralNetworksExecution_compute(execution));
  terms[0] = sum[0] == 9 ? 2 : 0;
  sum[0] = 4;
  require_sum(sum, 4, "reused");
  ANeuralNetworksExecution_free(execution);

  ANeuralNetworksBurst* burst;
  OK(ANeuralNetworksBurst_create(compilation, &burst));
  execution = prepared(compilation, terms, sum, 3, 2);
  OK(ANeuralNetworksExecution_burstCompute(execution, burst));
  require_sum(sum, 5, "burst");
  ANeuralNetworksExecution_free(execution);
  ANeuralNetworksBurst_free(burst);

  ANeuralNetworksEvent* event;
  int fence;
  execution = prepared(compilation, terms, sum, 3, 3);
  OK(ANeuralNetworksExecution_startCompute(execution, &event));
  EXPECT(BAD_DATA, ANeuralNetworksEvent_getSyncFenceFd(event, &fence));
  OK(ANeuralNetworksEvent_wait(event));
  require_sum(sum, 6, "started");
  ANeuralNetworksEvent_free(event);
  ANeuralNetworksExecution_free(execution);

  /* What an event depended on is in its buffers, too. */
  execution = prepared(compilation, terms, sum, 3, 4);
  ANeuralNetworksExecution* second = prepared(compilation, other_terms, other_sum, 4, 4);
  OK(ANeuralNetworksExecution_startComputeWithDependencies(execution, NULL, 0, 0, &event));
  ANeuralNetworksEvent* last;
  const ANeuralNetworksEvent* dependencies[] = {event};
  OK(ANeuralNetworksExecution_startComputeWithDependencies(second, dependencies, 1, 0, &last));
  OK(ANeuralNetworksEvent_getSyncFenceFd(last, &fence));
  struct pollfd polled = {fence, POLLIN, 0};
  if (poll(&polled, 1, -1) != 1) return 1;
  close(fence);
  OK(ANeuralNetworksEvent_wait(last));
  require_sum(other_sum, 8, "fenced");
  require_sum(sum, 7, "before it");
  ANeuralNetworksEvent_free(event);
  ANeuralNetworksEvent_free(last);
  ANeuralNetworksExecution_free(execution);
  ANeuralNetworksExecution_free(second);

  const int file = memfd_create("terms", MFD_ALLOW_SEALING);
  if (ftruncate(file, 3 * BYTES)) return 1;
  float* shared = mmap(NULL, 3 * BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  for (int index = 0; index < 2 * LENGTH; ++index) shared[index] = index < LENGTH ? 4 : 5;
  ANeuralNetworksMemory* memory;
  OK(ANeuralNetworksMemory_createFromFd(3 * BYTES, PROT_READ | PROT_WRITE, file, 0, &memory));
  OK(ANeuralNetworksExecution_create(compilation, &execution));
  OK(ANeuralNetworksExecution_setInputFromMemory(execution, 0, NULL, memory, 0, BYTES));
  OK(ANeuralNetworksExecution_setInputFromMemory(execution, 1, NULL, memory, BYTES, BYTES));
  OK(ANeuralNetworksExecution_setOutputFromMemory(execution, 0, NULL, memory, 2 * BYTES, BYTES));
  OK(ANeuralNetworksExecution_compute(execution));
  require_sum(shared + 2 * LENGTH, 9, "in memory");
  ANeuralNetworksExecution_free(execution);
  ANeuralNetworksMemory_free(memory);

  pthread_t threads[4];
  for (intptr_t number = 0; number < 4; ++number) pthread_create(&threads[number], NULL, in_a_thread, (void*)number);
  for (int number = 0; number < 4; ++number) pthread_join(threads[number], NULL);
  printf("in threads\n");
  ANeuralNetworksCompilation_free(compilation);
  return 0;
}
