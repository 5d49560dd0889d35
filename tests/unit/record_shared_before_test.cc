// What of a process's mappings counts as shared with others (core/record/shared_before.h): mappings of this process,
// whose truth is known.
#include "core/record/shared_before.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "core/base/fd.h"
#include "core/base/memory_map.h"

namespace friday {
namespace {

constexpr size_t kPage = 4096;

class SharedBefore : public testing::Test {
 protected:
  void* map(size_t bytes, int protection, int flags, int fd, off_t offset = 0) {
    void* const at = mmap(nullptr, bytes, protection, MAP_SHARED | flags, fd, offset);
    EXPECT_NE(at, MAP_FAILED);
    mapped_.emplace_back(at, bytes);
    return at;
  }
  // A file of so many bytes; its path is removed at the end.
  UniqueFd file(const std::string& directory, off_t bytes, int flags = O_RDWR) {
    path_ = directory + "/friday-shared-before-XXXXXX";
    const int made = mkstemp(path_.data());
    EXPECT_EQ(ftruncate(made, bytes), 0);
    ::close(made);
    return UniqueFd(open(path_.c_str(), flags | O_CLOEXEC));
  }
  static std::optional<MappedObject> object_at(const void* address) {
    const auto maps = read_memory_map("/proc/self");
    const auto objects = mapped_shared(getpid());
    EXPECT_TRUE(maps && objects) << (objects ? "" : objects.error().message);
    const auto here = std::ranges::find_if(*maps, [&](const MappedRange& range) {
      return range.low <= reinterpret_cast<uint64_t>(address) && reinterpret_cast<uint64_t>(address) < range.high;
    });
    for (const MappedObject& each : objects->objects)
      if (each.object.device == here->device && each.object.inode == here->inode &&
          each.object.is_segment == here->path.starts_with("/SYSV"))
        return each;
    return {};
  }
  void TearDown() override {
    for (const auto& [at, bytes] : mapped_) munmap(at, bytes);
    if (!path_.empty()) unlink(path_.c_str());
  }

  std::string path_;
  std::vector<std::pair<void*, size_t>> mapped_;
};

TEST_F(SharedBefore, AnonymousMemory) {
  const auto found = object_at(map(3 * kPage, PROT_READ | PROT_WRITE, MAP_ANONYMOUS, -1));
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->can_change && found->object.is_nameless && !found->object.is_segment);
  EXPECT_EQ(found->object.size, 3 * kPage);
}

TEST_F(SharedBefore, PrivateMemoryIsNone) {
  void* const at = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_FALSE(object_at(at));
  munmap(at, kPage);
}

TEST_F(SharedBefore, SegmentOfSystemV) {
  const int id = shmget(IPC_PRIVATE, 2 * kPage, IPC_CREAT | 0600);
  void* const at = shmat(id, nullptr, 0);
  shmctl(id, IPC_RMID, nullptr);
  const auto found = object_at(at);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->object.is_segment && found->object.is_nameless);
  EXPECT_EQ(found->object.inode, static_cast<uint64_t>(id));
  shmdt(at);
}

TEST_F(SharedBefore, FileInMemoryHasTheSizeOfItsDescriptor) {
  UniqueFd fd(memfd_create("shared-before", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(fd.get(), 5000), 0);
  const auto found = object_at(map(4 * kPage, PROT_READ, 0, fd.get()));
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->size_known && found->can_change);
  EXPECT_EQ(found->object.size, 5000u);
}

TEST_F(SharedBefore, FileOfWhichAPartIsMapped) {
  const UniqueFd fd = file("/tmp", 10 * kPage + 1);
  const auto found = object_at(map(2 * kPage, PROT_READ | PROT_WRITE, 0, fd.get(), 3 * kPage));
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->size_known && found->can_change);
  EXPECT_EQ(found->object.size, 10 * kPage + 1);
}

TEST_F(SharedBefore, MappedReadOnlyByADescriptorThatCanWrite) {
  const UniqueFd fd = file("/var/tmp", 2 * kPage);
  const auto found = object_at(map(2 * kPage, PROT_READ, 0, fd.get()));
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->can_change) << "mprotect(2) could make it writable";
}

TEST_F(SharedBefore, MappedReadOnlyByADescriptorThatReads) {
  const UniqueFd fd = file("/var/tmp", 2 * kPage, O_RDONLY);
  const auto found = object_at(map(2 * kPage, PROT_READ, 0, fd.get()));
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->can_change);
}

TEST_F(SharedBefore, RemovedFileOfWhichNoDescriptorIsLeft) {
  UniqueFd fd = file("/var/tmp", 3 * kPage);
  void* const at = map(2 * kPage, PROT_READ | PROT_WRITE, 0, fd.get(), kPage);
  unlink(path_.c_str());
  fd.reset();
  const auto found = object_at(at);
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->size_known);
  EXPECT_EQ(found->object.size, 3 * kPage) << "as far as it is mapped";
}

TEST_F(SharedBefore, ADeviceIsNamed) {
  UniqueFd fd(open("/dev/mem", O_RDONLY | O_CLOEXEC));
  void* const at = fd ? mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fd.get(), 0xf0000) : MAP_FAILED;
  if (at == MAP_FAILED) GTEST_SKIP() << "machine: no device can be mapped";
  const auto objects = mapped_shared(getpid());
  ASSERT_TRUE(objects);
  EXPECT_EQ(objects->device, "/dev/mem");
  munmap(at, kPage);
}

TEST(SharedBeforeOfNobody, HasEnded) {
  const auto objects = mapped_shared(0x7ffffff0);
  ASSERT_FALSE(objects);
  EXPECT_EQ(objects.error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace friday
