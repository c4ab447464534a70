// The least of a test framework: TEST(name) { CHECK(...); }, and a program that runs the test that it is given the name
// of.
#ifndef NNHAL_TESTS_UNIT_H_
#define NNHAL_TESTS_UNIT_H_

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

struct Test {
  const char* name;
  void (*run)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

inline int& failures() {
  static int count = 0;
  return count;
}

#define TEST(name)                                                              \
  static void name();                                                           \
  static const bool name##_is_known = (tests().push_back({#name, name}), true); \
  static void name()

#define CHECK(condition)                                                  \
  do {                                                                    \
    if (!(condition)) {                                                   \
      std::printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      ++failures();                                                       \
    }                                                                     \
  } while (false)

// Prints both if they differ.
inline void check_same(const std::string& got, const std::string& expected, const char* file, int line) {
  if (got == expected) return;
  std::printf("%s:%d: got \"%s\", expected \"%s\"\n", file, line, got.c_str(), expected.c_str());
  ++failures();
}
#define CHECK_SAME(got, expected) check_same(got, expected, __FILE__, __LINE__)

int main(int count, char** arguments) {
  int found = 0;
  for (const Test& test : tests()) {
    if (count != 2 || std::strcmp(arguments[1], test.name) != 0) continue;
    ++found;
    test.run();
  }
  if (!found) std::printf("usage: %s NAME, of a test\n", arguments[0]);
  return found && !failures() ? 0 : 1;
}

#endif  // NNHAL_TESTS_UNIT_H_
