// Pseudo terminals: opened by ioctls and by their names, modes, sizes, sessions, line discipline, a child with a controlling terminal.
#include <asm/termbits.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "check.h"

int main(void) {
  int master = open("/dev/ptmx", O_RDWR | O_NOCTTY), number = -1, locked = 1, zero = 0, bytes;
  if (master < 0) {
    CHECK(errno == ENOENT || errno == EACCES || errno == ENOSPC || errno == EIO);
    return success();
  }
  CHECK(ioctl(master, TIOCSPTLCK, &zero) == 0 && ioctl(master, TIOCGPTLCK, &locked) == 0 && locked == 0);
  CHECK(ioctl(master, TIOCGPTN, &number) == 0 && number >= 0);
  char name[64];
  snprintf(name, sizeof name, "/dev/pts/%d", number);
  int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
  if (slave < 0) slave = open(name, O_RDWR | O_NOCTTY);
  CHECK(slave >= 0);

  struct winsize size = {24, 80, 0, 0}, got;
  CHECK(ioctl(master, TIOCSWINSZ, &size) == 0 && ioctl(slave, TIOCGWINSZ, &got) == 0 && got.ws_row == 24 && got.ws_col == 80);
  struct termios mode;
  struct termios2 mode2;
  CHECK(ioctl(slave, TCGETS, &mode) == 0 && (mode.c_lflag & ICANON) && ioctl(slave, TCGETS2, &mode2) == 0 && mode2.c_ospeed > 0);
  char text[64];
  CHECK(write(master, "a line\n", 7) == 7 && read(slave, text, sizeof text) == 7 && memcmp(text, "a line\n", 7) == 0);
  CHECK(read(master, text, sizeof text) == 8 && memcmp(text, "a line\r\n", 8) == 0);  // echoed
  mode.c_lflag &= ~(unsigned)(ICANON | ECHO);
  mode.c_oflag = 0;
  CHECK(ioctl(slave, TCSETS, &mode) == 0 && write(master, "raw", 3) == 3 && read(slave, text, sizeof text) == 3);
  struct pollfd there = {master, POLLIN, 0};
  CHECK(write(slave, "pending", 7) == 7 && poll(&there, 1, 5000) == 1 && ioctl(master, FIONREAD, &bytes) == 0 && bytes > 0 && ioctl(slave, TIOCOUTQ, &bytes) == 0);
  CHECK(ioctl(slave, TCFLSH, TCIOFLUSH) == 0 && ioctl(slave, TCSBRK, 1) == 0 && ioctl(slave, TIOCGETD, &bytes) == 0 && bytes == 0);
  CHECK(ioctl(slave, TCXONC, TCOON) == 0 && ioctl(master, TIOCPKT, &zero) == 0 && ioctl(slave, TIOCEXCL) == 0 && ioctl(slave, TIOCNXCL) == 0);
  CHECK(ioctl(slave, TIOCMGET, &bytes) == -1 && ioctl(slave, TIOCGSID, &bytes) == -1);
  printf("%s\n", isatty(slave) ? "a terminal" : "none");

  signal(SIGHUP, SIG_IGN);
  pid_t child = fork();
  if (child == 0) {
    int group;
    CHECK(setsid() == getpid() && ioctl(slave, TIOCSCTTY, 0) == 0);
    CHECK(ioctl(slave, TIOCGPGRP, &group) == 0 && group == getpid() && ioctl(slave, TIOCGSID, &group) == 0 && group == getpid());
    group = getpid();
    CHECK(ioctl(slave, TIOCSPGRP, &group) == 0);
    int tty = open("/dev/tty", O_RDWR);
    CHECK(tty >= 0 && write(tty, "from the child", 14) == 14 && ioctl(tty, TIOCNOTTY) == 0);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  for (ssize_t n = 0, more; n < 14; n += more) CHECK((more = read(master, text, sizeof text)) > 0);

  // The terminal is taken away from whoever has it: a session of its own, which ignores SIGHUP.
  if ((child = fork()) == 0) {
    CHECK(setsid() == getpid() && ioctl(slave, TIOCSCTTY, 0) == 0);
    if (vhangup() == 0) CHECK(read(slave, text, sizeof text) == 0 && write(slave, "x", 1) == -1 && errno == EIO);
    else CHECK(errno == EPERM && ioctl(slave, TIOCGWINSZ, &got) == 0);
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(close(slave) == 0 && close(master) == 0);
  return success();
}
