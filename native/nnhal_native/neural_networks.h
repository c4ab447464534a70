/* The functions of NeuralNetworks.h that libneuralnetworks.so has, feature level 8. Lines that begin with # are for C only. */
#ifndef NNHAL_NATIVE_NEURAL_NETWORKS_H_
#define NNHAL_NATIVE_NEURAL_NETWORKS_H_
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ANeuralNetworksModel ANeuralNetworksModel;
typedef struct ANeuralNetworksCompilation ANeuralNetworksCompilation;
typedef struct ANeuralNetworksExecution ANeuralNetworksExecution;
typedef struct ANeuralNetworksBurst ANeuralNetworksBurst;
typedef struct ANeuralNetworksEvent ANeuralNetworksEvent;
typedef struct ANeuralNetworksMemory ANeuralNetworksMemory;
typedef struct ANeuralNetworksMemoryDesc ANeuralNetworksMemoryDesc;
typedef struct ANeuralNetworksDevice ANeuralNetworksDevice;
typedef struct {
  int32_t type;
  uint32_t dimensionCount;
  const uint32_t* dimensions;
  float scale;
  int32_t zeroPoint;
} ANeuralNetworksOperandType;
typedef struct {
  uint32_t channelDim;
  uint32_t scaleCount;
  const float* scales;
} ANeuralNetworksSymmPerChannelQuantParams;

int ANeuralNetworks_getDeviceCount(uint32_t* result);
int ANeuralNetworks_getDevice(uint32_t index, ANeuralNetworksDevice** result);

int ANeuralNetworksDevice_getName(const ANeuralNetworksDevice* device, const char** result);
int ANeuralNetworksDevice_getVersion(const ANeuralNetworksDevice* device, const char** result);
int ANeuralNetworksDevice_getType(const ANeuralNetworksDevice* device, int32_t* result);
int ANeuralNetworksDevice_getFeatureLevel(const ANeuralNetworksDevice* device, int64_t* result);
int ANeuralNetworksDevice_wait(const ANeuralNetworksDevice* device);
int ANeuralNetworksDevice_getExtensionSupport(const ANeuralNetworksDevice* device, const char* extension,
                                              bool* result);

int64_t ANeuralNetworks_getRuntimeFeatureLevel(void);
uint64_t ANeuralNetworks_getDefaultLoopTimeout(void);
uint64_t ANeuralNetworks_getMaximumLoopTimeout(void);

int ANeuralNetworksModel_create(ANeuralNetworksModel** result);
void ANeuralNetworksModel_free(ANeuralNetworksModel* model);
int ANeuralNetworksModel_finish(ANeuralNetworksModel* model);
int ANeuralNetworksModel_addOperand(ANeuralNetworksModel* model, const ANeuralNetworksOperandType* type);
int ANeuralNetworksModel_setOperandValue(ANeuralNetworksModel* model, int32_t index, const void* buffer,
                                         size_t length);
int ANeuralNetworksModel_setOperandSymmPerChannelQuantParams(ANeuralNetworksModel* model, int32_t index,
                                                             const ANeuralNetworksSymmPerChannelQuantParams* params);
int ANeuralNetworksModel_setOperandValueFromMemory(ANeuralNetworksModel* model, int32_t index,
                                                   const ANeuralNetworksMemory* memory, size_t offset, size_t length);
int ANeuralNetworksModel_setOperandValueFromModel(ANeuralNetworksModel* model, int32_t index,
                                                  ANeuralNetworksModel* value);
int ANeuralNetworksModel_setOperandExtensionData(ANeuralNetworksModel* model, int32_t index, const void* data,
                                                 size_t length);
int ANeuralNetworksModel_addOperation(ANeuralNetworksModel* model, int32_t type, uint32_t input_count,
                                      const uint32_t* inputs, uint32_t output_count, const uint32_t* outputs);
int ANeuralNetworksModel_identifyInputsAndOutputs(ANeuralNetworksModel* model, uint32_t input_count,
                                                  const uint32_t* inputs, uint32_t output_count,
                                                  const uint32_t* outputs);
int ANeuralNetworksModel_relaxComputationFloat32toFloat16(ANeuralNetworksModel* model, bool allow);
int ANeuralNetworksModel_getSupportedOperationsForDevices(ANeuralNetworksModel* model,
                                                          const ANeuralNetworksDevice* const* devices, uint32_t count,
                                                          bool* result);
int ANeuralNetworksModel_getExtensionOperandType(ANeuralNetworksModel* model, const char* extension, uint16_t code,
                                                 int32_t* result);
int ANeuralNetworksModel_getExtensionOperationType(ANeuralNetworksModel* model, const char* extension, uint16_t code,
                                                   int32_t* result);

int ANeuralNetworksCompilation_create(ANeuralNetworksModel* model, ANeuralNetworksCompilation** result);
int ANeuralNetworksCompilation_createForDevices(ANeuralNetworksModel* model,
                                                const ANeuralNetworksDevice* const* devices, uint32_t count,
                                                ANeuralNetworksCompilation** result);
void ANeuralNetworksCompilation_free(ANeuralNetworksCompilation* compilation);
int ANeuralNetworksCompilation_setPreference(ANeuralNetworksCompilation* compilation, int32_t value);
int ANeuralNetworksCompilation_setPriority(ANeuralNetworksCompilation* compilation, int value);
int ANeuralNetworksCompilation_setTimeout(ANeuralNetworksCompilation* compilation, uint64_t duration_ns);
int ANeuralNetworksCompilation_setCaching(ANeuralNetworksCompilation* compilation, const char* directory,
                                          const uint8_t* token);
int ANeuralNetworksCompilation_addExtensionAttribute(ANeuralNetworksCompilation* compilation, const char* extension,
                                                     uint16_t code, const void* data, size_t length);
int ANeuralNetworksCompilation_finish(ANeuralNetworksCompilation* compilation);
int ANeuralNetworksCompilation_getPreferredMemoryAlignmentForInput(ANeuralNetworksCompilation* compilation,
                                                                   uint32_t index, uint32_t* result);
int ANeuralNetworksCompilation_getPreferredMemoryPaddingForInput(ANeuralNetworksCompilation* compilation,
                                                                 uint32_t index, uint32_t* result);
int ANeuralNetworksCompilation_getPreferredMemoryAlignmentForOutput(ANeuralNetworksCompilation* compilation,
                                                                    uint32_t index, uint32_t* result);
int ANeuralNetworksCompilation_getPreferredMemoryPaddingForOutput(ANeuralNetworksCompilation* compilation,
                                                                  uint32_t index, uint32_t* result);

int ANeuralNetworksMemory_createFromFd(size_t size, int protect, int descriptor, size_t offset,
                                       ANeuralNetworksMemory** result);
int ANeuralNetworksMemory_createFromAHardwareBuffer(const void* buffer, ANeuralNetworksMemory** result);
int ANeuralNetworksMemory_createFromDesc(const ANeuralNetworksMemoryDesc* description,
                                         ANeuralNetworksMemory** result);
void ANeuralNetworksMemory_free(ANeuralNetworksMemory* memory);
int ANeuralNetworksMemory_copy(const ANeuralNetworksMemory* source, const ANeuralNetworksMemory* destination);

int ANeuralNetworksMemoryDesc_create(ANeuralNetworksMemoryDesc** result);
void ANeuralNetworksMemoryDesc_free(ANeuralNetworksMemoryDesc* description);
int ANeuralNetworksMemoryDesc_addInputRole(ANeuralNetworksMemoryDesc* description,
                                           ANeuralNetworksCompilation* compilation, uint32_t index, float frequency);
int ANeuralNetworksMemoryDesc_addOutputRole(ANeuralNetworksMemoryDesc* description,
                                            ANeuralNetworksCompilation* compilation, uint32_t index, float frequency);
int ANeuralNetworksMemoryDesc_setDimensions(ANeuralNetworksMemoryDesc* description, uint32_t rank,
                                            const uint32_t* dimensions);
int ANeuralNetworksMemoryDesc_finish(ANeuralNetworksMemoryDesc* description);

int ANeuralNetworksBurst_create(ANeuralNetworksCompilation* compilation, ANeuralNetworksBurst** result);
void ANeuralNetworksBurst_free(ANeuralNetworksBurst* burst);

int ANeuralNetworksExecution_create(ANeuralNetworksCompilation* compilation, ANeuralNetworksExecution** result);
void ANeuralNetworksExecution_free(ANeuralNetworksExecution* execution);
int ANeuralNetworksExecution_setInput(ANeuralNetworksExecution* execution, int32_t index,
                                      const ANeuralNetworksOperandType* type, const void* buffer, size_t length);
int ANeuralNetworksExecution_setInputFromMemory(ANeuralNetworksExecution* execution, int32_t index,
                                                const ANeuralNetworksOperandType* type,
                                                const ANeuralNetworksMemory* memory, size_t offset, size_t length);
int ANeuralNetworksExecution_setOutput(ANeuralNetworksExecution* execution, int32_t index,
                                       const ANeuralNetworksOperandType* type, void* buffer, size_t length);
int ANeuralNetworksExecution_setOutputFromMemory(ANeuralNetworksExecution* execution, int32_t index,
                                                 const ANeuralNetworksOperandType* type,
                                                 const ANeuralNetworksMemory* memory, size_t offset, size_t length);
int ANeuralNetworksExecution_setMeasureTiming(ANeuralNetworksExecution* execution, bool measure);
int ANeuralNetworksExecution_setTimeout(ANeuralNetworksExecution* execution, uint64_t duration_ns);
int ANeuralNetworksExecution_setLoopTimeout(ANeuralNetworksExecution* execution, uint64_t duration_ns);
int ANeuralNetworksExecution_setReusable(ANeuralNetworksExecution* execution, bool reusable);
int ANeuralNetworksExecution_enableInputAndOutputPadding(ANeuralNetworksExecution* execution, bool enable);
int ANeuralNetworksExecution_addExtensionAttribute(ANeuralNetworksExecution* execution, const char* extension,
                                                   uint16_t code, const void* data, size_t length);
int ANeuralNetworksExecution_compute(ANeuralNetworksExecution* execution);
int ANeuralNetworksExecution_burstCompute(ANeuralNetworksExecution* execution, ANeuralNetworksBurst* burst);
int ANeuralNetworksExecution_startCompute(ANeuralNetworksExecution* execution, ANeuralNetworksEvent** result);
int ANeuralNetworksExecution_startComputeWithDependencies(ANeuralNetworksExecution* execution,
                                                          const ANeuralNetworksEvent* const* dependencies,
                                                          uint32_t count, uint64_t duration_ns,
                                                          ANeuralNetworksEvent** result);
int ANeuralNetworksExecution_getDuration(ANeuralNetworksExecution* execution, int32_t code, uint64_t* result);
int ANeuralNetworksExecution_getOutputOperandRank(ANeuralNetworksExecution* execution, int32_t index,
                                                  uint32_t* result);
int ANeuralNetworksExecution_getOutputOperandDimensions(ANeuralNetworksExecution* execution, int32_t index,
                                                        uint32_t* result);

int ANeuralNetworksEvent_createFromSyncFenceFd(int descriptor, ANeuralNetworksEvent** result);
int ANeuralNetworksEvent_getSyncFenceFd(const ANeuralNetworksEvent* event, int* result);
int ANeuralNetworksEvent_wait(ANeuralNetworksEvent* event);
void ANeuralNetworksEvent_free(ANeuralNetworksEvent* event);

/* Not of the NDK: why the last call of this thread that failed was refused. Valid until the next call. */
const char* ANeuralNetworksNnhal_getRefusal(void);

#endif
