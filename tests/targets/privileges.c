// Who a process is and what it may: ids, groups, capabilities, prctl, keys, namespaces, mounts, Landlock, chroot, closing by range.
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

#define MAY_LACK(call) CHECK((call) == 0 || errno == EPERM || errno == ENOSYS || errno == EINVAL || errno == EACCES || errno == ENOSPC || errno == EOPNOTSUPP)

// Each part in a child of its own, as there is no way back.
static void apart(void (*part)(void)) {
  pid_t child = fork();
  int status;
  if (child == 0) {
    part();
    _exit(0);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void ids(void) {
  uid_t real, effective, saved;
  gid_t list[100], group = getgid();
  CHECK(getresuid(&real, &effective, &saved) == 0 && real == getuid() && effective == geteuid() && getresgid(&real, &effective, &saved) == 0 && real == getgid());
  CHECK(getgroups(0, NULL) >= 0 && getgroups(100, list) >= 0 && getgroups(0, list) >= 0);
  MAY_LACK(setgroups(1, &group));
  MAY_LACK(setregid(getgid(), getegid()));
  MAY_LACK(setresgid(getgid(), getgid(), getgid()));
  MAY_LACK(setgid(getgid()));
  CHECK(setfsuid(getuid()) == (int)getuid() && setfsgid(getgid()) == (int)getgid());
  MAY_LACK(setreuid(getuid(), geteuid()));
  uid_t other = getuid() ? getuid() : 65534;
  CHECK(setresuid(other, other, other) == 0 && getuid() == other && setuid(other) == 0);
  CHECK(other == 0 || setuid(0) == -1);
}

static void capabilities(void) {
  struct __user_cap_header_struct header = {0, 0};
  struct __user_cap_data_struct data[2] = {0};
  CHECK(syscall(SYS_capget, &header, data) == -1 && errno == EINVAL && header.version == _LINUX_CAPABILITY_VERSION_3);
  CHECK(syscall(SYS_capget, &header, data) == 0 && syscall(SYS_capset, &header, data) == 0);
  printf("%x\n", header.version);
  header.version = 1;
  CHECK(syscall(SYS_capset, &header, data) == -1 && errno == EINVAL && header.version == _LINUX_CAPABILITY_VERSION_3);
  memset(data, 0, sizeof data);
  CHECK(syscall(SYS_capset, &header, data) == 0 && syscall(SYS_capget, &header, data) == 0 && data[0].effective == 0);
}

static void settings(void) {
  int value = -1;
  char name[16] = "";
  CHECK(prctl(PR_SET_NAME, "renamed") == 0 && prctl(PR_GET_NAME, name) == 0 && strcmp(name, "renamed") == 0);
  CHECK(prctl(PR_SET_PDEATHSIG, SIGUSR1) == 0 && prctl(PR_GET_PDEATHSIG, &value) == 0 && value == SIGUSR1 && prctl(PR_SET_PDEATHSIG, 0) == 0);
  CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 && prctl(PR_GET_CHILD_SUBREAPER, &value) == 0 && value == 1);
  CHECK(prctl(PR_SET_TIMERSLACK, 60000) == 0 && prctl(PR_GET_TIMERSLACK) == 60000 && prctl(PR_GET_TSC, &value) == 0 && value == PR_TSC_ENABLE);
  CHECK(prctl(PR_GET_DUMPABLE) >= 0 && prctl(PR_SET_DUMPABLE, 0) == 0 && prctl(PR_GET_DUMPABLE) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
  CHECK(prctl(PR_GET_KEEPCAPS) == 0 && prctl(PR_GET_SECUREBITS) >= 0 && prctl(PR_CAPBSET_READ, CAP_KILL) >= 0);
  CHECK(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_KILL, 0, 0) >= 0 && prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) >= 0);
  CHECK(prctl(PR_MCE_KILL_GET, 0, 0, 0, 0) >= 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  int *clear = NULL;
  CHECK(prctl(40 /* PR_GET_TID_ADDRESS */, &clear) == 0 ? *clear == gettid() : errno == EINVAL);
  char auxv[1024] = "";
  long bytes = prctl(0x41555856 /* PR_GET_AUXV */, auxv, sizeof auxv, 0, 0);
  CHECK(bytes > 0 || errno == EINVAL);
  int map_size = 0;
  CHECK(prctl(PR_SET_MM, 15 /* PR_SET_MM_MAP_SIZE */, &map_size, 0, 0) == 0 ? map_size > 0 : errno == EINVAL || errno == EPERM);
  unsigned long long cookie = 0;
  prctl(62 /* PR_SCHED_CORE */, 0, 0, 0, &cookie);
  CHECK(prctl(PR_GET_UNALIGN, &value) == -1 && prctl(12345) == -1 && errno == EINVAL && prctl(PR_SET_NAME, "privileges") == 0);
}

static void keys(void) {
  char text[64] = "";
  long key = syscall(SYS_add_key, "user", "friday-test", "secret", 6L, KEY_SPEC_PROCESS_KEYRING);
  if (key < 0) {
    CHECK(errno == ENOSYS || errno == EPERM || errno == EDQUOT || errno == EACCES);
    syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 0);
  } else {
    CHECK(syscall(SYS_keyctl, KEYCTL_READ, key, text, sizeof text) == 6 && memcmp(text, "secret", 6) == 0);
    CHECK(syscall(SYS_keyctl, KEYCTL_READ, key, text, 2L) == 6 && syscall(SYS_keyctl, KEYCTL_DESCRIBE, key, text, sizeof text) > 0);
    CHECK(syscall(SYS_keyctl, KEYCTL_REVOKE, key) == 0);
  }
  CHECK(syscall(SYS_request_key, "user", "friday-none-such", NULL, 0) == -1);
}

static void namespaces(void) {
  int own = open("/proc/self/ns/mnt", O_RDONLY);
  CHECK(unshare(CLONE_FILES | CLONE_FS) == 0);
  if (own >= 0) MAY_LACK(setns(own, 0));
  if (getuid() != 0 && unshare(CLONE_NEWUSER) != 0) MAY_LACK(-1);
  MAY_LACK(unshare(CLONE_NEWNS | CLONE_NEWUTS));
  if (errno == 0 || access("/", R_OK) == 0) {
    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
    CHECK(mkdir("mounted", 0700) == 0);
    int mounted = mount("tmpfs", "mounted", "tmpfs", 0, "size=64k");
    CHECK(mounted == 0 ? umount2("mounted", MNT_DETACH) == 0 : errno == EPERM || errno == EACCES || errno == ENODEV);
    sethostname("friday-test", 11), setdomainname("friday-test", 11);
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, "mounted", 1 | O_CLOEXEC /* OPEN_TREE_CLONE */), fs = (int)syscall(SYS_fsopen, "tmpfs", 0);
    syscall(467 /* open_tree_attr */, AT_FDCWD, "mounted", 0, NULL, 0L);
    syscall(SYS_fsconfig, fs, 0, "size", "64k", 0), syscall(SYS_fsconfig, fs, 6 /* FSCONFIG_CMD_CREATE */, NULL, NULL, 0);
    int made = (int)syscall(SYS_fsmount, fs, 0, 0), picked = (int)syscall(SYS_fspick, AT_FDCWD, "mounted", 0);
    if (syscall(SYS_move_mount, made, "", AT_FDCWD, "mounted", 4 /* MOVE_MOUNT_F_EMPTY_PATH */) == 0) CHECK(umount2("mounted", MNT_DETACH) == 0);
    unsigned long long attributes[4] = {0};
    syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, attributes, sizeof attributes);
    close(tree), close(fs), close(made), close(picked);
    CHECK(rmdir("mounted") == 0);
  }
  struct {
    unsigned size, spare;
    unsigned long long id, param, more;
  } about = {24, 0, ~0ull, 0, 0};
  unsigned long long list[16];
  char status[1024];
  CHECK(syscall(458 /* listmount */, &about, list, 16L, 0) >= -1);
  about.param = 1, about.id = list[0];
  syscall(457 /* statmount */, &about, status, sizeof status, 0);
}

static void rules(void) {
  struct landlock_ruleset_attr attr = {.handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  int set = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
  if (set < 0) {
    CHECK(errno == ENOSYS || errno == EOPNOTSUPP);
    struct landlock_path_beneath_attr none = {0};
    syscall(SYS_landlock_add_rule, -1, LANDLOCK_RULE_PATH_BENEATH, &none, 0), syscall(SYS_landlock_restrict_self, -1, 0);
    return;
  }
  struct landlock_path_beneath_attr below = {.allowed_access = LANDLOCK_ACCESS_FS_WRITE_FILE, .parent_fd = open("/dev", O_PATH)};
  CHECK(syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &below, 0) == 0 && syscall(SYS_landlock_restrict_self, set, 0) == 0);
  CHECK(open("not-allowed", O_WRONLY | O_CREAT, 0600) == -1 && errno == EACCES && open("/dev/null", O_WRONLY) >= 0);
}

static void other_root(void) {
  CHECK(mkdir("root", 0700) == 0);
  if (chroot("root") == 0) {
    CHECK(chdir("/") == 0 && open("/proc/self/maps", O_RDONLY) == -1 && open("made", O_CREAT | O_RDWR, 0600) >= 0 && unlink("/made") == 0);
    pid_t child = fork();
    if (child == 0) _exit(3);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
  } else {
    CHECK(errno == EPERM);
  }
}

static void ranges(void) {
  int fds[20];
  for (int i = 0; i < 20; i++) CHECK((fds[i] = dup(0)) >= 0);
  CHECK(syscall(SYS_close_range, fds[3], fds[5], 0) == 0 && fcntl(fds[4], F_GETFD) == -1 && fcntl(fds[6], F_GETFD) >= 0);
  CHECK(syscall(SYS_close_range, fds[6], ~0u, 4 /* CLOSE_RANGE_CLOEXEC */) == 0 && fcntl(fds[7], F_GETFD) == FD_CLOEXEC);
  CHECK(syscall(SYS_close_range, 9, 5, 0) == -1 && errno == EINVAL);
  CHECK(syscall(SYS_close_range, 3, ~0u, 2 /* CLOSE_RANGE_UNSHARE */) == 0 && fcntl(fds[7], F_GETFD) == -1);
}

static void own_files(void) {
  const char *names[] = {"/proc/self/maps", "/proc/self/status", "/proc/self/stat", "/proc/self/cmdline", "/proc/self/auxv", "/proc/self/mountinfo"};
  char text[8192], link[256];
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
    int fd = open(names[i], O_RDONLY);
    ssize_t n, bytes = 0;
    CHECK(fd >= 0);
    while ((n = read(fd, text, sizeof text)) > 0) bytes += n;
    CHECK(n == 0 && bytes > 0 && close(fd) == 0);
  }
  CHECK(readlink("/proc/self/exe", link, sizeof link) > 0 && readlink("/proc/self/fd/0", link, sizeof link) > 0);
}

int main(void) {
  void (*parts[])(void) = {ids, capabilities, settings, keys, namespaces, rules, other_root, ranges, own_files};
  for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) apart(parts[i]);
  CHECK(rmdir("root") == 0 && (unlink("not-allowed") == 0 || errno == ENOENT));
  return success();
}
