// Reads the superblock and root group of an HDF5 file by hand.
#include "libtrain/base/error.h"
#include "libtrain/io/bulk.h"
#include "libtrain/io/hdf5_heap.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace trainyard::io::hdf5 {

namespace {

constexpr int deepest_tree = 8;

struct Bytes {
  std::vector<char> held;
  std::uint64_t number(std::uint64_t at, std::size_t width) const {
    TRAINYARD_ASSERT(at + width <= held.size(), "bytes {} to {} of {}", at, at + width, held.size());
    std::uint64_t value = 0;
    std::memcpy(&value, held.data() + at, width);  // little-endian
    return value;
  }
  bool begins(std::string_view text) const {
    return held.size() >= text.size() && std::equal(text.begin(), text.end(), held.begin());
  }
};

class File {
 public:
  explicit File(const std::string& path)
      : file_(path, BulkFile::Mode::read), size_(static_cast<std::uint64_t>(file_.size())) {}

  void examine() {
    base_ = superblock();
    const auto first = read(0, 16);
    const auto version = first.number(8, 1);
    if (version > 3) refuse(fmt::format("its superblock has version {}", version));
    if (first.number(version < 2 ? 13 : 9, 1) != 8 || first.number(version < 2 ? 14 : 10, 1) != 8)
      refuse("its addresses and lengths do not have 8 bytes each");
    if (version >= 2) return;  // all further structures have checksums
    const auto head = read(0, 100);
    const auto entry = version == 0 ? 56u : 60u;
    if (head.number(entry - 32, 8) != base_) refuse("its superblock lies where it does not say");
    if (head.number(entry + 16, 4) == 1) group(head.number(entry + 24, 8), head.number(entry + 32, 8));
    header(head.number(entry + 8, 8));
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw base::InputError(fmt::format("{} is no HDF5 file that can be read: {}", file_.path(), what),
                           "the file is damaged or not what it should be");
  }
  Bytes read(std::uint64_t address, std::uint64_t bytes) const {
    const auto left = size_ - std::min(size_, base_);
    if (address > left || bytes > left - address)
      refuse(fmt::format("it leads to bytes {} and {} more, out of {}", address, bytes, size_));
    Bytes out{std::vector<char>(bytes)};
    file_.read(static_cast<std::int64_t>(base_ + address), out.held.data(), static_cast<std::int64_t>(bytes));
    return out;
  }

  // Finds the superblock: at the beginning, or after a user block of 512 bytes, 1024, 2048...
  std::uint64_t superblock() const {
    for (std::uint64_t at = 0; at + 16 <= size_; at = at == 0 ? 512 : 2 * at)
      if (read(at, 8).begins("\x89HDF\r\n\x1a\n")) return at;
    refuse("it has no superblock");
  }

  // Goes through the messages of an object header to find where the names are. A newer header has checksums, and its
  // names are in messages or in a heap with checksums.
  void header(std::uint64_t address) const {
    const auto prefix = read(address, 16);
    if (prefix.begins("OHDR")) return;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> blocks{{address + 16, prefix.number(8, 4)}};
    std::uint64_t sum = 0;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const auto block = read(blocks[b].first, blocks[b].second);
      if ((sum += block.held.size()) > size_) refuse("the header of its root group goes on in circles");
      for (std::uint64_t at = 0; at + 8 <= block.held.size();) {
        const auto type = block.number(at, 2), bytes = block.number(at + 2, 2);
        at += 8;
        if (bytes > block.held.size() - at) refuse("a message of its root group does not end");
        if ((type == 0x10 || type == 0x11) && bytes < 16) refuse("a message of its root group is cut short");
        if (type == 0x10) blocks.emplace_back(block.number(at, 8), block.number(at + 8, 8));
        if (type == 0x11) group(block.number(at, 8), block.number(at + 8, 8));
        at += bytes;
      }
      if (blocks.size() > size_ / 16) refuse("the header of its root group goes on in circles");
    }
  }

  // A group is a tree of entries by name, and a heap with the names.
  void group(std::uint64_t tree_address, std::uint64_t heap_address) const {
    const auto heap = read(heap_address, 32);
    if (!heap.begins("HEAP")) refuse("its root group has no names");
    const auto names = read(heap.number(24, 8), heap.number(8, 8));
    auto free = heap.number(16, 8);
    for (std::uint64_t steps = 0; free != 1 && free != ~std::uint64_t{0}; ++steps) {  // 1 ends the list
      if (steps > names.held.size() / 16 || names.held.size() < 16 || free > names.held.size() - 16)
        refuse("the list of free names of its root group does not end");
      free = names.number(free, 8);
    }
    std::uint64_t nodes = 0;
    tree(tree_address, names, deepest_tree, nodes);
  }

  // The node's level must be below `level`.
  void tree(std::uint64_t address, const Bytes& names, int level, std::uint64_t& nodes) const {
    const auto head = read(address, 24);
    const auto own = static_cast<int>(head.number(5, 1));
    if (!head.begins(std::string_view("TREE\0", 5)) || own >= level || ++nodes > size_ / 24)
      refuse("the tree of its root group leads nowhere");
    const auto count = head.number(6, 2);
    const auto entries = read(address + 24, count * 16 + 8);  // key, child, key, child ... key
    for (std::uint64_t i = 0; i <= count; ++i) name(names, entries.number(i * 16, 8));
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto child = entries.number(i * 16 + 8, 8);
      if (own > 0) tree(child, names, own, nodes);
      else leaf(child, names);
    }
  }

  void leaf(std::uint64_t address, const Bytes& names) const {
    const auto head = read(address, 8);
    if (!head.begins("SNOD")) refuse("the tree of its root group leads nowhere");
    const auto count = head.number(6, 2);
    const auto entries = read(address + 8, count * 40);
    for (std::uint64_t i = 0; i < count; ++i) name(names, entries.number(i * 40, 8));
  }

  void name(const Bytes& names, std::uint64_t at) const {
    if (at >= names.held.size() || std::memchr(names.held.data() + at, 0, names.held.size() - at) == nullptr)
      refuse("a name of its root group does not end");
  }

  BulkFile file_;
  std::uint64_t size_, base_ = 0;
};

}  // namespace

void examine(const std::string& path) { File(path).examine(); }

}  // namespace trainyard::io::hdf5
