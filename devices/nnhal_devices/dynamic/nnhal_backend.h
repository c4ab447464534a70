/* The interface of a backend in a shared object of C, for `nnhal device` to load: see docs/write_a_device.md.
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
#define NNHAL_BACKEND_MINOR 1

#define NNHAL_MOST_DIMENSIONS 8 /* The host takes operations on tensors of more dimensions elsewhere. */
#define NNHAL_WORDS 256         /* Bytes of room for words, with the 0 at their end. They are UTF-8. */
#define NNHAL_CODE 32           /* Bytes of room for the code of a reason, likewise. */

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

/* Why an operation is not supported. Users read it, and planning knows the codes of docs/reference/protocol.md. */
typedef struct {
    char code[NNHAL_CODE];     /* Such as DTYPE or RANK; OP if it is left empty. */
    char got[NNHAL_WORDS];     /* What the model has. */
    char allowed[NNHAL_WORDS]; /* What the device takes. */
    char hint[NNHAL_WORDS];    /* What would make it supported, if anything would. */
} NnhalReason;

/* How to prepare a model. Instants are of CLOCK_BOOTTIME, and -1 is none. */
typedef struct {
    int32_t preference;
    int32_t priority;
    int64_t deadline_ns;
    const void *artifact; /* What `save` gave of a workload of the same model, NULL without one. It is there during the call. */
    uint64_t artifact_length;
    int32_t is_cached; /* Whether `save` will be called. */
} NnhalPreparation;

/* One run: its limits, and what it tells. */
typedef struct {
    const volatile int32_t *cancelled; /* Once it is not 0, the run should end, with any status. */
    int64_t deadline_ns;               /* The host cancels a run whose deadline has passed. */
    int64_t time_on_device_ns;         /* Written by a run that measures or models it; else the host's clock is taken. */
    int32_t status;                    /* Of a run that was enqueued, written before the sync ends. */
    char words[NNHAL_WORDS];           /* Likewise. */
} NnhalRun;

/* Operations that a device runs as one, or that it cannot run together. */
typedef struct {
    int32_t is_failed;       /* Whether it cannot. */
    char words[NNHAL_WORDS]; /* Why it cannot, or what runs in their place. */
} NnhalGroup;

/* The costs of a run that belong to no operation, in nanoseconds. */
typedef struct {
    double hop_ns;    /* To launch a run and learn of its end. */
    double sync_ns;   /* To make results visible. */
    double import_ns; /* To import one piece of memory. */
    double copy_ns_per_byte;
} NnhalCosts;

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

    /* From version 1.1 on. All of it is optional, and 0 or NULL without it. */

    uint32_t alignment; /* Bytes, a power of two of at most 4096, 64 by default. Arguments that are not aligned so are copied. */
    int32_t is_modelled;     /* Whether the times that runs tell are those of a model of the hardware. */
    const char *realisation; /* What the device really runs on. */
    const NnhalCosts *costs; /* For the framework's plans. */

    /* As `supports`, and in its place. */
    int32_t (*assess)(void *self, const NnhalModel *model, uint32_t operation, NnhalReason *reason);

    /* Say which operations of a model that is supported the device runs as one, or cannot run together: `group_of` has an
     * element for each operation, which is 0 as long as the operation is left as it is, else the number of its group. The
     * first is 1, and groups[0]. There is room for as many groups as operations. */
    int32_t (*optimize)(void *self, const NnhalModel *model, uint32_t *group_of, NnhalGroup *groups, char *words);

    /* As `prepare`, and in its place. An artifact may have been made with other options: it is used only if it fits. */
    int32_t (*compile)(void *self, const NnhalModel *model, const NnhalPreparation *how, void **workload, char *words);

    /* Give what compiling has made, for the compilation cache: 1, or 0 if nothing of this workload is to be cached. The bytes are
     * there until the workload is released. */
    int32_t (*save)(void *workload, const void **artifact, uint64_t *length);

    /* Tie a workload to the arguments of an execution, which is run again and again, once at a time: what is kept from one of its
     * runs to the next, such as scratch memory, belongs to the binding. The arguments are there until it is unbound. */
    int32_t (*bind)(void *workload, const NnhalArgument *inputs, NnhalArgument *outputs, void **binding, char *words);
    void (*unbind)(void *binding);

    /* As `run`, and in its place. `binding` is the workload if there is no `bind`. */
    int32_t (*execute)(void *binding, const NnhalArgument *inputs, NnhalArgument *outputs, NnhalRun *run, char *words);

    /* Take a run into the device's queue, and return at once. Runs of the queue are done in order, and their results are there when
     * `sync` returns, which ends when all that were enqueued before have ended. Both or neither, and `execute` beside them. */
    int32_t (*enqueue)(void *binding, const NnhalArgument *inputs, NnhalArgument *outputs, NnhalRun *run, char *words);
    int32_t (*sync)(void *self, char *words);

    /* The working memory of the device: acquired before each run, released after it. Both or neither. */
    int32_t (*acquire_memory)(void *self, char *words);
    void (*release_memory)(void *self);

    /* Notices of the framework, by the number of a network. */
    void (*before_load_network)(void *self, uint64_t network);
    void (*after_load_network)(void *self, uint64_t network); /* Also if loading it has failed. */
    void (*before_unload_network)(void *self, uint64_t network);
    void (*after_unload_network)(void *self, uint64_t network);
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
