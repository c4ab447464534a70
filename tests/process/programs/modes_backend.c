/* A backend that takes every operation, and does with a run what the option mode says. */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "nnhal_backend.h"

#ifndef MAJOR
#define MAJOR NNHAL_BACKEND_MAJOR
#endif
#ifndef ID
#define ID "Modes"
#endif

static char mode[NNHAL_WORDS];

static int32_t configure(void *self, const NnhalOptions *options, char *words) {
    (void)self;
    for (uint32_t index = 0; index < options->count; index++) {
        if (strcmp(options->names[index], "mode") != 0) {
            snprintf(words, NNHAL_WORDS, "no option is called %s; threads: %u", options->names[index], options->threads);
            return 4;
        }
        snprintf(mode, sizeof mode, "%s", options->values[index]);
    }
    return 0;
}

static int32_t supports(void *self, const NnhalModel *model, uint32_t operation, char *words) {
    (void)self, (void)model, (void)operation;
    if (strcmp(mode, "none") == 0)
        snprintf(words, NNHAL_WORDS, "nothing in this mode");
    return strcmp(mode, "none") != 0;
}

static int32_t prepare(void *self, const NnhalModel *model, void **workload, char *words) {
    (void)self, (void)model;
    *workload = mode;
    if (strcmp(mode, "unprepared") == 0)
        snprintf(words, NNHAL_WORDS, "the compiler is out");
    return strcmp(mode, "unprepared") == 0 ? 2 : 0;
}

static int32_t run(void *workload, const NnhalArgument *inputs, NnhalArgument *outputs,
                   const volatile int32_t *cancelled, char *words) {
    (void)workload, (void)inputs;
    if (strcmp(mode, "crash") == 0)
        raise(SIGSEGV);
    if (strcmp(mode, "refuse") == 0) {
        memset(words, 'x', NNHAL_WORDS); /* without a 0 at the end */
        return 7;
    }
    while (strcmp(mode, "wait") == 0 && !*cancelled)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (strcmp(mode, "length") == 0) { /* finds out that there are 3 */
        outputs[0].rank = 1;
        outputs[0].dimensions[0] = 3;
        if (outputs[0].length >= 3 * sizeof(float))
            memcpy(outputs[0].data, (float[]){1, 2, 3}, 3 * sizeof(float));
    }
    return 0;
}

static void release(void *workload) {
    (void)workload;
}

static NnhalBackend backend = {
    .size = sizeof backend,
    .version = "modes-1.0",
    .device_type = 1,
    .exec_time = 1.0f,
    .power_usage = 1.0f,
    .configure = configure,
    .supports = supports,
#ifndef WITHOUT_PREPARE
    .prepare = prepare,
#endif
    .run = run,
    .release = release,
};

const char *GetBackendId(void) {
    return ID;
}

void GetVersion(uint32_t *major, uint32_t *minor) {
    *major = MAJOR;
    *minor = NNHAL_BACKEND_MINOR;
}

#ifndef WITHOUT_FACTORY
void *BackendFactory(void) {
#ifdef SHORT
    backend.size = 8;
#endif
#ifdef FIRST_VERSION /* What lies behind it there is something else. */
    backend.size = offsetof(NnhalBackend, alignment);
    backend.alignment = 3;
#endif
#ifdef NOTHING
    return NULL;
#else
    return &backend;
#endif
}
#endif

#ifdef SIZES
int main(void) {
    printf("%zu %zu %zu %zu %zu ", sizeof(NnhalOperand), sizeof(NnhalOperation), sizeof(NnhalModel),
           sizeof(NnhalArgument), sizeof(NnhalOptions));
    printf("%zu %zu %zu %zu %zu %zu", sizeof(NnhalReason), sizeof(NnhalPreparation), sizeof(NnhalRun), sizeof(NnhalGroup),
           sizeof(NnhalCosts), sizeof(NnhalBackend));
}
#endif
