#include <fmt/core.h>

int main() {
  fmt::print("penstock {}\n", PENSTOCK_VERSION);
  return 0;
}
