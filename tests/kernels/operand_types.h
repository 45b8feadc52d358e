// Calls an operation with every wrong type of every operand, and expects that it refuses and names the operand. Calls
// it without rows, and expects that it writes only sums over no rows.
#pragma once

#include "tests/kernels/matrix_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::test {

using base::View;
using Types = std::vector<DType>;

inline constexpr auto every_type = {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64,
                                    DType::u8,  DType::u16,  DType::u32, DType::u64, DType::f16};
inline const Types working{DType::f32, DType::bf16, DType::f64, DType::f16}, accumulated{DType::f32, DType::f64};

// An operand of a call that fits. Its type could also be one of `fine`. With one of `leads`, another operand would be
// the one that does not fit.
struct Operand {
  const char* name;
  std::vector<std::int64_t> shape;
  DType type;
  Types fine = {}, leads = {};

  std::int64_t count() const {
    std::int64_t n = 1;
    for (auto size : shape) n *= size;
    return n;
  }
  View view(std::vector<double>& memory) const {
    View v(memory.data(), type, {count()});
    v.dims = static_cast<int>(shape.size());
    std::ranges::copy(shape, v.shape.begin());
    v.pitch = v.cols();
    return v;
  }
};
inline Operand lead(const char* name, const std::vector<std::int64_t>& shape, DType type,
                    const Types& leads = working) {
  return {name, shape, type, {}, leads};
}
inline Types same_sums(DType t) { return t == DType::f64 ? Types{} : Types{DType::f32, DType::bf16, DType::f16}; }

using Call = std::function<void(tensor::Exec&, const std::vector<View>&)>;

inline std::string refusal(const Call& call, tensor::Exec& exec, const std::vector<View>& views) {
  try {
    call(exec, views);
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "";
}

// The operand of a call without rows. Operands with a row for each token are listed with two.
inline Operand without_rows(Operand o) {
  if (const auto two = std::ranges::find(o.shape, 2); two != o.shape.end()) *two = 0;
  return o;
}

// Without rows the call works. What it does not leave as it is, it sets to zero: sums over rows.
inline void expect_no_rows(const std::string& operation, const std::vector<Operand>& operands, const Call& call) {
  Bench bench(1);
  std::vector<std::vector<double>> memory;
  std::vector<View> views;
  for (const auto& o : operands)
    memory.emplace_back(static_cast<std::size_t>(o.count()), std::ranges::count(working, o.type));
  const auto before = memory;
  for (std::size_t i = 0; i < operands.size(); ++i) views.push_back(without_rows(operands[i]).view(memory[i]));
  EXPECT_EQ(refusal(call, *bench, views), "") << operation << " without rows";
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (memory[i] == before[i]) continue;
    auto sums = before[i];
    std::memset(sums.data(), 0, static_cast<std::size_t>(views[i].bytes()));
    EXPECT_TRUE(std::ranges::count(working, operands[i].type) > 0 && views[i].count() > 0 && memory[i] == sums)
        << operation << " without rows writes " << operands[i].name;
  }
}

// any: the operation accepts operands without rows, and expect_types calls it so. some: it needs rows.
enum class Rows { any, some };

// The call works with these types. With any other type of one operand it is refused before anything is written.
inline void expect_types(const std::string& operation, const std::vector<Operand>& operands, const Call& call,
                         Rows rows = Rows::any) {
  const bool has_rows =
      std::ranges::any_of(operands, [](const auto& o) { return o.count() != without_rows(o).count(); });
  if (rows == Rows::any && has_rows) expect_no_rows(operation, operands, call);
  Bench bench(1);
  std::vector<std::vector<double>> memory;  // with room for the widest type; integers are zeros
  for (const auto& o : operands) memory.emplace_back(static_cast<std::size_t>(o.count()));
  std::vector<View> views;
  for (std::size_t i = 0; i < operands.size(); ++i) views.push_back(operands[i].view(memory[i]));
  EXPECT_EQ(refusal(call, *bench, views), "") << operation;
  for (std::size_t i = 0; i < operands.size(); ++i)
    std::ranges::fill(memory[i], std::ranges::count(working, operands[i].type));
  const auto before = memory;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto& o = operands[i];
    for (auto wrong : every_type) {
      if (wrong == o.type || std::ranges::count(o.fine, wrong) > 0) continue;
      auto with = views;
      with[i].dtype = wrong;
      const auto found = refusal(call, *bench, with);
      const bool leads = std::ranges::count(o.leads, wrong) > 0;
      const auto text = operation + ": type of " + (leads ? "" : o.name + std::string(": expected "));
      EXPECT_NE(found.find(text), std::string::npos)
          << operation << " with " << o.name << " in " << base::name_of(wrong) << ": '" << found << "'";
      EXPECT_TRUE(leads || found.ends_with(std::string(", found ") + base::name_of(wrong))) << found;
      EXPECT_EQ(memory, before) << operation << " with " << o.name << " in " << base::name_of(wrong);
    }
  }
}

// Calls body(working dtype, accumulation dtype).
template <class Body> void with_each_type(const Body& body) {
  for (auto t : working) body(t, accumulation(t));
}

}  // namespace trainyard::test
