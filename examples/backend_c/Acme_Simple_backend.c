/* A backend in C: a device that takes ADD and RELU of float32 tensors of one shape, and computes them on the CPU.
 *
 *     gcc -std=c11 -O2 -shared -fPIC -Wl,-z,defs -I "$(python -m nnhal_devices.dynamic)" Acme_Simple_backend.c -o Acme_Simple_backend.so
 *     nnhal device Simple --endpoint /tmp/simple --backend-path "$PWD"
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nnhal_backend.h"

enum { FLOAT32 = 3, ADD = 0, RELU = 19 }; /* The HAL's numbers of a type of operands, and of operations. */
enum { GENERAL_FAILURE = 2, INSUFFICIENT_SIZE = 3, INVALID_ARGUMENT = 4 };

/* A prepared model. */
typedef struct {
    const NnhalModel *model; /* It is there until the release. */
} Workload;

static const NnhalOperand *input_of(const NnhalModel *model, const NnhalOperation *operation, uint32_t position) {
    return &model->operands[operation->inputs[position]];
}

static int has_equal_shape(const NnhalOperand *one, const NnhalOperand *other) {
    if (one->rank != other->rank)
        return 0;
    for (uint32_t axis = 0; axis < one->rank; axis++)
        if (one->dimensions[axis] == 0 || one->dimensions[axis] != other->dimensions[axis])
            return 0;
    return one->rank > 0;
}

static uint64_t elements_of(const NnhalOperand *operand) {
    uint64_t count = 1;
    for (uint32_t axis = 0; axis < operand->rank; axis++)
        count *= operand->dimensions[axis];
    return count;
}

static int32_t supports(void *self, const NnhalModel *model, uint32_t number, char *words) {
    (void)self;
    const NnhalOperation *operation = &model->operations[number];
    if (operation->type != ADD && operation->type != RELU) {
        snprintf(words, NNHAL_WORDS, "operation type %d", operation->type);
        return 0;
    }
    const NnhalOperand *first = input_of(model, operation, 0);
    if (first->type != FLOAT32 || !has_equal_shape(first, &model->operands[operation->outputs[0]])) {
        snprintf(words, NNHAL_WORDS, "a tensor that is not of float32, or of an unknown shape");
        return 0;
    }
    if (operation->type == ADD) {
        const NnhalOperand *activation = input_of(model, operation, 2);
        int32_t code = 0;
        if (activation->data != NULL)
            memcpy(&code, activation->data, sizeof code);
        if (!has_equal_shape(first, input_of(model, operation, 1)) || activation->data == NULL || code != 0) {
            snprintf(words, NNHAL_WORDS, "an addition of two shapes, or with an activation");
            return 0;
        }
    }
    return 1;
}

static int32_t prepare(void *self, const NnhalModel *model, void **workload, char *words) {
    (void)self;
    Workload *made = malloc(sizeof *made);
    if (made == NULL) {
        snprintf(words, NNHAL_WORDS, "no memory for a workload");
        return GENERAL_FAILURE;
    }
    made->model = model;
    *workload = made;
    return 0;
}

static void compute(const NnhalOperation *operation, float *const *values, uint64_t count) {
    float *result = values[operation->outputs[0]];
    const float *first = values[operation->inputs[0]];
    const float *second = operation->type == ADD ? values[operation->inputs[1]] : NULL;
    for (uint64_t index = 0; index < count; index++) {
        float value = second == NULL ? first[index] : first[index] + second[index];
        result[index] = second == NULL && value < 0 ? 0 : value;
    }
}

static int32_t run(void *workload, const NnhalArgument *inputs, NnhalArgument *outputs,
                   const volatile int32_t *cancelled, char *words) {
    const NnhalModel *model = ((const Workload *)workload)->model;
    int32_t status = GENERAL_FAILURE;
    float **values = calloc(model->operand_count, sizeof *values); /* Where each operand's value is. */
    float **own = calloc(model->operand_count, sizeof *own);       /* Those that this run has allocated. */
    if (values == NULL || own == NULL)
        goto no_memory;
    for (uint32_t operand = 0; operand < model->operand_count; operand++)
        values[operand] = (float *)model->operands[operand].data; /* Constants are only read. */
    for (uint32_t position = 0; position < model->input_count; position++) {
        if (inputs[position].data == NULL) {
            status = INVALID_ARGUMENT;
            snprintf(words, NNHAL_WORDS, "input %u is left out", position);
            goto done;
        }
        values[model->inputs[position]] = inputs[position].data;
    }
    for (uint32_t position = 0; position < model->output_count; position++) {
        const NnhalOperand *operand = &model->operands[model->outputs[position]];
        if (outputs[position].length < elements_of(operand) * sizeof(float)) {
            status = INSUFFICIENT_SIZE;
            snprintf(words, NNHAL_WORDS, "output %u has no room", position);
            goto done;
        }
        values[model->outputs[position]] = outputs[position].data;
    }
    for (uint32_t number = 0; number < model->operation_count && !*cancelled; number++) {
        const NnhalOperation *operation = &model->operations[number];
        uint32_t result = operation->outputs[0];
        uint64_t count = elements_of(&model->operands[result]);
        if (values[result] == NULL) {
            values[result] = own[result] = malloc(count * sizeof(float));
            if (own[result] == NULL)
                goto no_memory;
        }
        compute(operation, values, count);
    }
    status = 0;
    goto done;
no_memory:
    snprintf(words, NNHAL_WORDS, "no memory for the values of a run");
done:
    for (uint32_t operand = 0; own != NULL && operand < model->operand_count; operand++)
        free(own[operand]);
    free(own);
    free(values);
    return status;
}

static NnhalBackend backend = {
    .size = sizeof backend,
    .version = "acme-simple-1.0",
    .device_type = 4, /* An accelerator. */
    .exec_time = 1.0f,
    .power_usage = 1.0f,
    .supports = supports,
    .prepare = prepare,
    .run = run,
    .release = free,
};

const char *GetBackendId(void) {
    return "Simple";
}

void GetVersion(uint32_t *major, uint32_t *minor) {
    *major = NNHAL_BACKEND_MAJOR;
    *minor = NNHAL_BACKEND_MINOR;
}

void *BackendFactory(void) {
    return &backend;
}
