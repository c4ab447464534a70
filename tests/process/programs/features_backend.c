/* A backend with all that came in version 1.1 of the interface. It takes additions of 16 floats, and a run writes numbers into its
 * output: the runs of this binding, whether the workload is of an artifact, and how often memory was acquired.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nnhal_backend.h"

typedef struct {
    int32_t is_restored;
} Workload;

typedef struct {
    const Workload *workload;
    int32_t runs;
    struct Queued {
        const NnhalArgument *inputs;
        NnhalArgument *outputs;
        NnhalRun *run;
    } queued;
    int32_t is_queued;
} Binding;

static int32_t acquired, held;
static Binding *queue[64];
static int32_t queue_length;

static int32_t assess(void *self, const NnhalModel *model, uint32_t operation, NnhalReason *reason) {
    (void)self;
    if (model->operations[operation].type == 0)
        return 1;
    snprintf(reason->code, NNHAL_CODE, "KERNEL");
    snprintf(reason->got, NNHAL_WORDS, "type %d", model->operations[operation].type);
    snprintf(reason->allowed, NNHAL_WORDS, "ADD");
    snprintf(reason->hint, NNHAL_WORDS, "add instead");
    return 0;
}

static int32_t optimize(void *self, const NnhalModel *model, uint32_t *group_of, NnhalGroup *groups, char *words) {
    (void)self;
    if (model->operation_count == 5)
        return snprintf(words, NNHAL_WORDS, "five are too many"), 2;
    for (uint32_t operation = 1; operation < model->operation_count; operation++)
        group_of[operation] = operation < 3 ? 1 : 2;
    snprintf(groups[0].words, NNHAL_WORDS, "one kernel");
    groups[1].is_failed = 1;
    snprintf(groups[1].words, NNHAL_WORDS, "too long");
    return 0;
}

static int32_t compile(void *self, const NnhalModel *model, const NnhalPreparation *how, void **workload, char *words) {
    (void)self, (void)model, (void)words;
    Workload *made = calloc(1, sizeof *made);
    made->is_restored = how->artifact_length == 4 && memcmp(how->artifact, "made", 4) == 0;
    *workload = made;
    return 0;
}

static int32_t save(void *workload, const void **artifact, uint64_t *length) {
    (void)workload;
    *artifact = "made", *length = 4;
    return 1;
}

static int32_t bind(void *workload, const NnhalArgument *inputs, NnhalArgument *outputs, void **binding, char *words) {
    (void)inputs;
    if (outputs[0].data == NULL)
        return snprintf(words, NNHAL_WORDS, "no output"), 4;
    Binding *made = calloc(1, sizeof *made);
    made->workload = workload;
    *binding = made;
    return 0;
}

static void unbind(void *binding) {
    fprintf(stderr, "unbound after %d runs\n", ((Binding *)binding)->runs);
    free(binding);
}

static int32_t execute(void *binding, const NnhalArgument *inputs, NnhalArgument *outputs, NnhalRun *run, char *words) {
    (void)words;
    Binding *bound = binding;
    float *result = outputs[0].data;
    const float *term = inputs[0].data;
    result[0] = (float)++bound->runs;
    result[1] = (float)bound->workload->is_restored;
    result[2] = (float)acquired;
    result[3] = (float)held;
    if (term[0] < 0)
        return snprintf(words, NNHAL_WORDS, "a negative term"), 2;
    run->time_on_device_ns = 4200;
    return 0;
}

#ifndef WITHOUT_QUEUE
static int32_t enqueue(void *binding, const NnhalArgument *inputs, NnhalArgument *outputs, NnhalRun *run, char *words) {
    Binding *bound = binding;
    if (queue_length == 64)
        return snprintf(words, NNHAL_WORDS, "the queue is full"), 7;
    bound->queued = (struct Queued){inputs, outputs, run};
    queue[queue_length++] = bound;
    return 0;
}

static int32_t sync(void *self, char *words) {
    (void)self, (void)words;
    for (int32_t index = 0; index < queue_length; index++) {
        struct Queued *queued = &queue[index]->queued;
        queued->run->status = execute(queue[index], queued->inputs, queued->outputs, queued->run, queued->run->words);
    }
    queue_length = 0;
    return 0;
}
#endif

static int32_t acquire_memory(void *self, char *words) {
    (void)self, (void)words;
    acquired++, held++;
    return 0;
}

static void release_memory(void *self) {
    (void)self;
    held--;
}

static void before_load(void *self, uint64_t network) {
    (void)self;
    fprintf(stderr, "before load of %d\n", (int)network);
}

static void after_unload(void *self, uint64_t network) {
    (void)self;
    fprintf(stderr, "after unload of %d\n", (int)network);
}

static const NnhalCosts costs = {.hop_ns = 1, .sync_ns = 2, .import_ns = 3, .copy_ns_per_byte = 4};

#ifndef ALIGNMENT
#define ALIGNMENT 128
#endif

static NnhalBackend backend = {
    .size = sizeof backend,
    .version = "features-1.0",
    .device_type = 4,
    .exec_time = 1.0f,
    .power_usage = 1.0f,
    .is_serial = 1,
    .release = free,
    .alignment = ALIGNMENT,
    .is_modelled = 1,
    .realisation = "a test",
    .costs = &costs,
    .assess = assess,
    .optimize = optimize,
    .compile = compile,
    .save = save,
    .bind = bind,
#ifndef WITHOUT_UNBIND
    .unbind = unbind,
#endif
    .execute = execute,
#ifndef WITHOUT_QUEUE
    .enqueue = enqueue,
    .sync = sync,
#else
    .acquire_memory = acquire_memory,
    .release_memory = release_memory,
#endif
    .before_load_network = before_load,
    .after_unload_network = after_unload,
};

const char *GetBackendId(void) {
    return "Features";
}

void GetVersion(uint32_t *major, uint32_t *minor) {
    *major = NNHAL_BACKEND_MAJOR;
    *minor = NNHAL_BACKEND_MINOR;
}

void *BackendFactory(void) {
    return &backend;
}
