// Does on purpose what the sanitizer of this build must catch. A build whose sanitizer is silent
// proves nothing.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

int race_with_another_thread() {
  int shared = 0;
  std::thread other([&] { ++shared; });
  ++shared;
  other.join();
  return shared;
}

int overrun_the_heap(size_t size) {
  char* memory = static_cast<char*>(std::malloc(size));
  std::memset(memory, 1, size);
  const int past = static_cast<volatile char*>(memory)[size];
  std::free(memory);
  return past;
}

int overflow_a_signed_int(int value) {
  volatile int large = 0x7fffffff;
  return large + value;
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  int result = 0;
  if (std::strcmp(what, "race") == 0) result = race_with_another_thread();
  if (std::strcmp(what, "overrun") == 0) result = overrun_the_heap(static_cast<size_t>(argc) * 8);
  if (std::strcmp(what, "overflow") == 0) result = overflow_a_signed_int(argc);
  std::printf("%d: nothing was caught\n", result);
  return 0;
}
