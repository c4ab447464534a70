/* The interface of a backend in a shared object of C, for `nnhal device` to load: see docs/backends.md.
 *
 * The shared object exports GetBackendId, GetVersion and BackendFactory. Numbers such as types of operands and operations, types of
 * devices and statuses are those of Android's NN HAL. Functions are called from several threads at once; runs of one
 * workload are, too, unless is_serial is set. A crash ends the device's process, and nothing else.
 */
#ifndef NNHAL_BACKEND_H
#define NNHAL_BACKEND_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. The minor number grows with a new member at the end of NnhalBackend; the major number with any
 * other change. */
#define NNHAL_BACKEND_MAJOR 1
#define NNHAL_BACKEND_MINOR 0

#define NNHAL_MOST_DIMENSIONS 8 /* The host takes operations on tensors of more dimensions elsewhere. */
#define NNHAL_WORDS 256         /* Bytes of room for words, with the 0 at their end. They are UTF-8. */

/* A value of a model. */
typedef struct {
    int32_t type;
    uint32_t rank; /* 0 for scalars, and for tensors of an unknown number of dimensions. */
    uint32_t dimensions[NNHAL_MOST_DIMENSIONS]; /* 0 is an axis of unknown length. */
    float scale;
    int32_t zero_point;
    uint32_t channel_dimension;
    uint32_t channel_count; /* 0 if it is not quantised by channel. */
    const float *channel_scales;
    const void *data; /* The value of a constant, NULL of others. It is there until the workload is released. */
    uint64_t length;  /* Bytes of data. */
} NnhalOperand;

/* An operation on operands, by index. An input that is omitted is a constant without data. */
typedef struct {
    int32_t type;
    uint32_t input_count;
    const uint32_t *inputs;
    uint32_t output_count;
    const uint32_t *outputs;
} NnhalOperation;

/* Operations in an order in which they can be run. */
typedef struct {
    uint32_t operand_count;
    const NnhalOperand *operands;
    uint32_t operation_count;
    const NnhalOperation *operations;
    uint32_t input_count;
    const uint32_t *inputs;
    uint32_t output_count;
    const uint32_t *outputs;
    int32_t relaxed; /* Whether float32 may be computed as float16. */
} NnhalModel;

/* An input or output of a run, aligned to 64 bytes. */
typedef struct {
    void *data;      /* NULL if it is omitted. */
    uint64_t length; /* Bytes of memory. */
    uint32_t rank;
    uint32_t dimensions[NNHAL_MOST_DIMENSIONS]; /* 0 is an axis of an output whose length the run finds out. */
} NnhalArgument;

/* What the user wrote: nnhal device NAME --threads N --option name=value. */
typedef struct {
    uint32_t threads; /* For one run. */
    uint32_t count;
    const char *const *names;
    const char *const *values;
} NnhalOptions;

/* A backend. Functions that return a status return 0, or one of the HAL's, and then write why to `words`. */
typedef struct {
    uint64_t size; /* sizeof(NnhalBackend) */
    void *self;    /* The first argument of the functions below. */
    const char *version;
    int32_t device_type;
    float exec_time;   /* As a ratio of the reference on the CPU: 0.5 is twice as fast. */
    float power_usage; /* Likewise. */
    int32_t is_serial; /* Whether runs may not overlap. */

    /* Take the options, once, before all else. Optional: without it there are none. */
    int32_t (*configure)(void *self, const NnhalOptions *options, char *words);

    /* Whether an operation is supported: 1 or 0, and then why not. It must be fast. */
    int32_t (*supports)(void *self, const NnhalModel *model, uint32_t operation, char *words);

    /* The nanoseconds that an operation takes, for the framework's plans. Optional: by default exec_time says it. */
    double (*operation_ns)(void *self, const NnhalModel *model, uint32_t operation);

    /* Make a workload of a model whose operations are all supported. The model is there until its release. */
    int32_t (*prepare)(void *self, const NnhalModel *model, void **workload, char *words);

    /* Read the inputs, compute, write the outputs. `dimensions` of outputs are written if they were not known. An
     * output that needs more than its `length` is not written, but its dimensions are. Once *cancelled is not 0, the run
     * should end, with any status. */
    int32_t (*run)(void *workload, const NnhalArgument *inputs, NnhalArgument *outputs,
                   const volatile int32_t *cancelled, char *words);

    void (*release)(void *workload);
} NnhalBackend;

/* The name of the backend, unique among those of a device process. */
const char *GetBackendId(void);

/* The version of this header that it was made with. */
void GetVersion(uint32_t *major, uint32_t *minor);

/* The backend, a NnhalBackend that is there until the process ends; NULL if it cannot be used. */
void *BackendFactory(void);

#ifdef __cplusplus
}
#endif

#endif
