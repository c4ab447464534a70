// The structures of TensorFlow Lite, as far as the delegate reads and writes them, and the functions in them: from
// version 2.14 on, which LiteRT has kept. layout.h checks at run time whether those of a program are the same.
#ifndef NNHAL_TFLITE_TENSORFLOW_LITE_H_
#define NNHAL_TFLITE_TENSORFLOW_LITE_H_

#include <cstddef>
#include <cstdint>

namespace nnhal::tflite {

enum Outcome : int { kOk = 0, kError = 1 };

enum Allocation : int { kMapped = 1, kArena = 2, kDynamic = 4, kPersistentConstant = 5 };

enum DelegateFlags : std::int64_t { kAllowsDynamicTensors = 1, kRequiresPropagatedShapes = 2 };

constexpr int kDelegateOperator = 51;  // the number of an operator that a delegate has made

// A length, and as many numbers behind it.
struct Ints {
  int size;

  const int* begin() const { return reinterpret_cast<const int*>(this + 1); }
  const int* end() const { return begin() + size; }
};

struct Delegate;

struct Tensor {
  int type;
  void* data;
  Ints* dimensions;
  float scale;
  std::int32_t zero_point;
  int allocation;
  std::size_t bytes;
  const void* source;  // an object that knows where the file lies in memory
  const char* name;
  Delegate* delegate;
  int buffer_handle;
  bool is_stale, is_variable;
  int quantization_type;
  void* quantization;
  void* sparsity;
  const Ints* signature;
};

struct Node {
  const Ints *inputs, *outputs, *intermediates, *temporaries;
  void* user_data;
  void* builtin_data;
  const void* custom_data;
  int custom_size;
  Delegate* delegate;
  bool has_side_effects;
};

struct Context;

struct Registration {
  void* (*init)(Context*, const char* parameters, std::size_t length);
  void (*free)(Context*, void* user_data);
  int (*prepare)(Context*, Node*);
  int (*invoke)(Context*, Node*);
  const char* (*profiling_string)(const Context*, const Node*);
  std::int32_t builtin_code;
  const char* custom_name;
  int version;
  void* external;
  void* async_kernel;
  std::uint64_t in_place;
};

struct Delegate {
  void* data;
  int (*prepare)(Context*, Delegate*);
  void *copy_from, *copy_to, *free_handle;
  std::int64_t flags;
  void* builder;
};

// What init of a delegate's node is given.
struct Subset {
  Delegate* delegate;
  const Ints *nodes, *inputs, *outputs;
};

// An interpreter's graph. What follows is not read.
struct Context {
  std::size_t tensor_count;
  int (*get_execution_plan)(Context*, Ints** plan);
  Tensor* tensors;
  void* implementation;
  int (*resize_tensor)(Context*, Tensor*, Ints* dimensions);  // which it frees
  void (*report_error)(Context*, const char* format, ...);
  int (*add_tensors)(Context*, int count, int* first);
  int (*get_node)(Context*, int index, Node**, Registration**);
  int (*replace_nodes)(Context*, Registration, const Ints* nodes, Delegate*);
};

}  // namespace nnhal::tflite

#endif  // NNHAL_TFLITE_TENSORFLOW_LITE_H_
