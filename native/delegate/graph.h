// The graph of an interpreter, and the file that it was made of.
#ifndef NNHAL_TFLITE_GRAPH_H_
#define NNHAL_TFLITE_GRAPH_H_

#include <string>
#include <string_view>
#include <vector>

#include "memory_map.h"
#include "nnhal/fd.h"
#include "nnhal/memory.h"
#include "tensorflow_lite.h"

namespace nnhal::tflite {

struct Operator {
  int code;                          // its number in the schema
  std::vector<int> inputs, outputs;  // tensors; -1 for an input that is left out

  bool operator==(const Operator& other) const {
    return code == other.code && inputs == other.inputs && outputs == other.outputs;
  }
};

// The nodes of an interpreter's graph as the file has them: node i is operator i.
struct Graph {
  std::vector<Operator> operators;
  std::vector<int> taken;  // those that another delegate has, ascending

  // Reads it. Throws Failure if the structures are laid out in another way than tensorflow_lite.h says.
  static Graph read(Context* context, MemoryMap& memory);
};

// The file of a model.
class ModelBytes {
 public:
  // That of `path`; without one, that in whose bytes the constants or names of the graph's tensors lie. `last` are the
  // bytes in memory where one was found before, for graphs of it without constants. Throws Failure.
  static ModelBytes find(const Context& context, MemoryMap& memory, const std::string& path, std::string_view& last);

  // The number of its graph that is the interpreter's. Throws Failure if none is.
  std::size_t graph_of(const Context& context, const Graph& graph) const;
  const Fd& file() const { return file_; }

 private:
  // A file that may be mapped, from a byte of it on.
  static ModelBytes of(Fd file, const std::string& place);
  // Bytes that the program has in memory.
  static ModelBytes copied(std::string_view bytes);

  Fd file_;
  Mapping mapping_;
  std::string place_;  // for people
};

}  // namespace nnhal::tflite

#endif  // NNHAL_TFLITE_GRAPH_H_
