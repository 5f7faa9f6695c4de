#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/result_matchers.h"
#include "penstock/decode.h"

namespace penstock::decode {
namespace {

std::span<const std::byte> npy_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string make_npy(const std::string& header, const std::string& data, char version = 1) {
  std::string file = "\x93NUMPY";
  file += version;
  file += '\0';
  const size_t length_bytes = version == 1 ? 2 : 4;
  for (size_t i = 0; i < length_bytes; ++i)
    file += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return file + header + data;
}

std::string header_of(const std::string& descr, const std::string& shape,
                      const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape +
         ", }   \n";
}

TEST(Npy, ReadsWhatNumpyWrites) {
  for (const char version : {'\1', '\2', '\3'}) {
    const std::string file = make_npy(header_of("<f4", "(2, 3)"), std::string(24, 'x'), version);
    const auto view = parse_npy(npy_bytes(file));
    ASSERT_THAT(view, IsOk());
    EXPECT_EQ(view->dtype, DType::kFloat32);
    EXPECT_EQ(view->shape, (std::vector<uint64_t>{2, 3}));
    EXPECT_EQ(view->data.size(), 24u);
    EXPECT_EQ(view->data.data(), npy_bytes(file).data() + file.size() - 24);
  }
}

TEST(Npy, ReadsEveryKindOfNumber) {
  struct Kind {
    const char* descr;
    DType dtype;
  };
  for (const Kind& c :
       {Kind{"|b1", DType::kBool}, Kind{"|u1", DType::kUint8}, Kind{"|i1", DType::kInt8},
        Kind{"<i2", DType::kInt16}, Kind{"<u2", DType::kUint16}, Kind{"<i4", DType::kInt32},
        Kind{"<u4", DType::kUint32}, Kind{"<i8", DType::kInt64}, Kind{"<u8", DType::kUint64},
        Kind{"<f2", DType::kFloat16}, Kind{"<f4", DType::kFloat32}, Kind{"<f8", DType::kFloat64}}) {
    const std::string file = make_npy(header_of(c.descr, "(2,)"), std::string(16, 'x'));
    const auto view = parse_npy(npy_bytes(file));
    ASSERT_THAT(view, IsOk()) << c.descr;
    EXPECT_EQ(view->dtype, c.dtype);
    EXPECT_EQ(view->data.size(), 2 * dtype_bytes(c.dtype));
    EXPECT_EQ(*parse_dtype(dtype_name(c.dtype)), c.dtype);
  }
  EXPECT_THAT(parse_dtype("float"), FailsWith(ErrorCode::kInvalid));
}

TEST(Npy, ShapesOfAllKinds) {
  const auto shape = [](const std::string& text) {
    const std::string file = make_npy(header_of("|u1", text), std::string(24, 'x'));
    const auto view = parse_npy(npy_bytes(file));
    return view ? view->shape : std::vector<uint64_t>{99};
  };
  EXPECT_EQ(shape("()"), std::vector<uint64_t>{});
  EXPECT_EQ(shape("(5,)"), std::vector<uint64_t>{5});
  EXPECT_EQ(shape("(2,3,4)"), (std::vector<uint64_t>{2, 3, 4}));
  EXPECT_EQ(shape("(2L, 3L)"), (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(shape("(0, 18446744073709551)"), (std::vector<uint64_t>{0, 18446744073709551}));
  for (const char* bad : {"(5", "5", "(,)", "(-1,)", "(a,)", "(2 3)", "(25,)",
                          "(4294967296, 4294967296, 4)", "[5]"}) {
    EXPECT_EQ(shape(bad), std::vector<uint64_t>{99}) << bad;
  }
}

TEST(Npy, SaysWhatIsNotRead) {
  const auto error = [](const std::string& header, const std::string& data) {
    const std::string file = make_npy(header, data);
    return parse_npy(npy_bytes(file));
  };
  const std::string data(64, 'x');
  EXPECT_THAT(error(header_of(">f4", "(2,)"), data), FailsWith(ErrorCode::kUnsupported));
  EXPECT_THAT(error(header_of("|O", "(2,)"), data), FailsWith(ErrorCode::kUnsupported));
  EXPECT_THAT(error(header_of("<U4", "(2,)"), data), FailsWith(ErrorCode::kUnsupported));
  EXPECT_THAT(error(header_of("<f4", "(2, 2)", "True"), data), FailsWith(ErrorCode::kUnsupported));
  EXPECT_THAT(error("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", data),
              FailsWith(ErrorCode::kUnsupported));
  EXPECT_THAT(error("{'descr': '<f4', 'shape': (2,), }", data), FailsWith(ErrorCode::kCorrupt));
  EXPECT_THAT(error(header_of("<f4", "(17,)"), data), FailsWith(ErrorCode::kCorrupt));
  EXPECT_THAT(parse_npy({}), FailsWith(ErrorCode::kCorrupt));
  const std::string file = make_npy(header_of("<f4", "(16,)"), data);
  ASSERT_THAT(parse_npy(npy_bytes(file)), IsOk());
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(parse_npy(npy_bytes(file).first(size)).ok()) << size;
  }
}

TEST(Number, IntegersAsPythonWritesThem) {
  const auto max = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(*parse_int("42"), 42);
  EXPECT_EQ(*parse_int(" -7\n"), -7);
  EXPECT_EQ(*parse_int("\t+13\r\n"), 13);
  EXPECT_EQ(*parse_int("007"), 7);
  EXPECT_EQ(*parse_int(std::to_string(max)), max);
  for (const char* bad : {"", " ", "+", "-", "+-3", "--3", "1 2", "3.0", "0x10",
                          "9223372036854775808", "3a", "1e3"}) {
    EXPECT_THAT(parse_int(bad), FailsWith(ErrorCode::kCorrupt)) << bad;
  }
}

TEST(Number, FloatsAsPythonWritesThem) {
  EXPECT_EQ(*parse_float("0.1"), 0.1);
  EXPECT_EQ(*parse_float(" 1e+22\n"), 1e22);
  EXPECT_EQ(*parse_float("-2.5E-3"), -2.5e-3);
  EXPECT_EQ(*parse_float("3"), 3);
  EXPECT_EQ(*parse_float("+.5"), 0.5);
  EXPECT_EQ(*parse_float("-inf"), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(*parse_float("nan")));
  for (const char* bad : {"", "e", "1.2.3", "1,5", "0x1p3x", "1e999", "+-1"}) {
    EXPECT_THAT(parse_float(bad), FailsWith(ErrorCode::kCorrupt)) << bad;
  }
}

}  // namespace
}  // namespace penstock::decode
