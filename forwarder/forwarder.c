/*
 * The forwarder, installed as `tortie` and `calico`: hands a runtime's call to the agent over the call socket (A§11.3) and prints the answer.
 * It reads no configuration and decides nothing. Where there is no answer to print (no agent, "do it yourself", anything odd) it becomes the
 * main plugin's program, which stands beside it under its own name and "-main", with the same arguments, environment and standard input.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define CALLS "/run/tortie/cni.sock"
#define CALLS_BESIDE "/cni.sock"
#define UNDO_OPTION "--undo-add"
#define CALL_OPTION "--agent-call="
/* How the installer knows the file, and of which version it is (installer/install.ts). */
__attribute__((used)) static const char MARK[] = "TORTIE-FORWARDER " VERSION;

/* Calls and answers as in handover/call-frame.ts. */
enum { MAGIC = 0x494e4354, FRAME_VERSION = 1, CALL_LIMIT = 1 << 20, OUTPUT_LIMIT = 1 << 20 };
enum { OWN_TORTIE_IPAM = 4, OWN_CALICO_IPAM = 8 };
enum { DONE = 200, DO_IT_YOURSELF = 421, BUSY = 503 };
/*
 * The least agent_timeout_seconds, for all waits until the first byte of the answer: no call is late before, and from then on the program
 * waits, which reads the configuration. An answer that has begun is whole after the same time again.
 */
static const struct timespec EXCHANGE = {.tv_sec = 2};

static struct {
  uint32_t magic;
  uint16_t version, zero;
  uint32_t flags, plugin_length, variables_length, stdin_length, deadline_ms;
  int32_t descriptor;
  uint64_t device, inode;
  char texts[CALL_LIMIT + 1]; /* the three, one behind the other; the last byte is only ever used by what is too long */
} call;
static struct {
  uint32_t magic;
  uint16_t version, status;
  uint32_t length, endpoint, warnings;
  char output[OUTPUT_LIMIT];
} answer;
enum { CALL_HEADER = 48, ANSWER_HEADER = 20 };
_Static_assert(offsetof(__typeof__(call), texts) == CALL_HEADER && offsetof(__typeof__(answer), output) == ANSWER_HEADER, "no padding");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the numbers of a call are little-endian");

static char program[PATH_MAX + sizeof "-main"];
static const char *read_text; /* what was read of standard input, in call.texts; NULL: nothing was */
static size_t read_length;

/* Without its program this file fails every call, as a call fails (C§10). */
_Noreturn static void fail(const char *step) {
  for (char *c = program; *c; c++)
    if (*c < ' ' || *c == '"' || *c == '\\') *c = '?';
  dprintf(1, "{\n    \"code\": 999,\n    \"msg\": \"%s: %s: %s\",\n    \"details\": \"program-missing: install Tortie again: the program of "
             "a plugin belongs beside it, under its name and -main\"\n}", program, step, strerror(errno));
  _exit(1);
}

static bool write_all(int fd, const char *text, size_t length) {
  while (length > 0) {
    ssize_t written = write(fd, text, length);
    if (written >= 0) text += written, length -= (size_t)written;
    else if (errno == EAGAIN) poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
    else if (errno != EINTR) return false;
  }
  return true;
}

/* Fewer than `room` bytes only at the end, and where nothing can be read: that the program tells. */
static size_t read_all(int fd, char *text, size_t room) {
  size_t length = 0;
  while (length < room) {
    ssize_t got = read(fd, text + length, room - length);
    if (got > 0) length += (size_t)got;
    else if (got < 0 && errno == EAGAIN) poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
    else if (got == 0 || errno != EINTR) break;
  }
  return length;
}

/* What was read of standard input, and what is still to come, can be read again. */
static void restore_stdin(void) {
  int copy = memfd_create("stdin", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (copy < 0) fail("memfd_create");
  for (; read_length > 0; read_text = answer.output, read_length = read_all(0, answer.output, OUTPUT_LIMIT))
    if (!write_all(copy, read_text, read_length)) fail("write");
  if (fcntl(copy, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0) fail("F_ADD_SEALS");
  if (lseek(copy, 0, SEEK_SET) < 0 || dup2(copy, 0) < 0) fail("dup2");
}

/* The program's runtime does not start in a directory that is deleted. In any other one a relative CNI_PATH keeps its meaning. */
static void leave_deleted_directory(void) {
  char path[PATH_MAX];
  if (getcwd(path, sizeof path) == NULL && errno == ENOENT && chdir("/") < 0) fail("chdir /");
}

_Noreturn static void become_program(char *const argv[]) {
  leave_deleted_directory();
  if (read_text != NULL) restore_stdin();
  execve(program, argv, environ);
  fail("execve");
}

/* The program waits for the answer from here on, on the same connection: to ask again would make the agent begin once more. */
_Noreturn static void let_program_wait(char *name, int agent) {
  char option[sizeof CALL_OPTION + 11];
  snprintf(option, sizeof option, CALL_OPTION "%d", agent);
  /* The agent may still open the sandbox by its number here. */
  if (call.descriptor >= 0) fcntl(call.descriptor, F_SETFD, 0);
  fcntl(agent, F_SETFD, 0);
  become_program((char *[]){name, option, NULL});
}

static void find_program(void) {
  static const char GONE[] = " (deleted)"; /* replaced since this process began, as an upgrade does it */
  ssize_t length = readlink("/proc/self/exe", program, PATH_MAX);
  if (length < 0) fail("readlink /proc/self/exe");
  size_t gone = sizeof GONE - 1;
  if ((size_t)length > gone && memcmp(program + length - gone, GONE, gone) == 0) length -= (ssize_t)gone;
  memcpy(program + length, "-main", sizeof "-main");
}

/* `flag` where the first plugin of this name in CNI_PATH is the program's own file: what lib/cni/plugin-file.ts looks up. */
static uint32_t own_ipam(const char *name, uint32_t flag, const struct stat *own) {
  const char *next = getenv("CNI_PATH");
  while (next != NULL && *next != '\0') {
    size_t length = strcspn(next, ":");
    char path[PATH_MAX];
    struct stat file;
    int whole = snprintf(path, sizeof path, "%.*s/%s", (int)length, next, name);
    next += length + (next[length] == ':');
    if (length == 0 || whole >= (int)sizeof path || stat(path, &file) < 0 || !S_ISREG(file.st_mode) || access(path, X_OK) < 0) continue;
    return file.st_dev == own->st_dev && file.st_ino == own->st_ino ? flag : 0;
  }
  return 0;
}

/* @return false for an environment that is too long for a call */
static bool write_variables(void) {
  size_t length = sizeof VERSION - 1;
  memcpy(call.texts, VERSION, length);
  call.plugin_length = (uint32_t)length;
  for (char **variable = environ; *variable != NULL; variable++) {
    size_t size = strlen(*variable) + 1;
    if (size > CALL_LIMIT - length) return false;
    memcpy(call.texts + length, *variable, size);
    length += size;
  }
  call.variables_length = (uint32_t)length - call.plugin_length;
  return true;
}

static void look_at_files(void) {
  struct stat file;
  call.descriptor = -1;
  const char *sandbox = getenv("CNI_NETNS");
  /* Not to wait for the other end of a FIFO. */
  int fd = sandbox != NULL && *sandbox != '\0' ? open(sandbox, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
  if (fd >= 0 && fstat(fd, &file) == 0) call.descriptor = fd, call.device = file.st_dev, call.inode = file.st_ino;
  if (stat(program, &file) < 0) return;
  call.flags = own_ipam("tortie-ipam", OWN_TORTIE_IPAM, &file) | own_ipam("calico-ipam", OWN_CALICO_IPAM, &file);
}

/* @return a socket that does not block; -1 where no agent listens */
static int connect_to_agent(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = CALLS};
  const char *api = getenv("TORTIE_SOCK");
  if (api != NULL && *api != '\0') {
    const char *slash = strrchr(api, '/');
    if (slash == NULL || (size_t)(slash - api) + sizeof CALLS_BESIDE > sizeof address.sun_path) return -1;
    memcpy(address.sun_path, api, (size_t)(slash - api));
    memcpy(address.sun_path + (slash - api), CALLS_BESIDE, sizeof CALLS_BESIDE);
  }
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  /* A number below 3 means that a standard stream is closed. */
  return fd > STDERR_FILENO && connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? fd : -1;
}

/*
 * @param left which the kernel shortens by the time that was waited: the C library's own ppoll leaves it as it was
 * @return false when nothing happens in that time
 */
static bool is_awake(int fd, short events, struct timespec *left) {
  return syscall(SYS_ppoll, &(struct pollfd){.fd = fd, .events = events}, 1, left, NULL, 0) != 0;
}

static bool send_call(int agent, size_t length, struct timespec *left) {
  for (const char *next = (const char *)&call; length > 0;) {
    ssize_t sent = send(agent, next, length, MSG_NOSIGNAL);
    if (sent > 0) next += sent, length -= (size_t)sent;
    else if (errno != EINTR && (errno != EAGAIN || !is_awake(agent, POLLOUT, left))) return false;
  }
  return true;
}

/* @return false where the whole answer does not come in time or before the connection ends, or what comes is no answer */
static bool receive_answer(int agent, char *name, struct timespec *left) {
  for (size_t length = 0, whole = ANSWER_HEADER; length < whole;) {
    bool is_late = !is_awake(agent, POLLIN, left);
    if (is_late && length == 0) let_program_wait(name, agent);
    ssize_t got = is_late ? 0 : recv(agent, (char *)&answer + length, sizeof answer - length, 0);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) return false;
    if (got > 0 && length == 0) *left = EXCHANGE;
    if (got > 0) length += (size_t)got;
    if (length < ANSWER_HEADER) continue;
    if (answer.magic != MAGIC || answer.version != FRAME_VERSION || answer.length > OUTPUT_LIMIT) return false;
    whole = ANSWER_HEADER + answer.length;
  }
  return true;
}

int main(int argc, char *argv[]) {
  find_program();
  const char *command = getenv("CNI_COMMAND");
  /* People give options, or no command; a version needs no agent. */
  if (argc != 1 || command == NULL || *command == '\0' || strcmp(command, "VERSION") == 0 || !write_variables()) become_program(argv);
  size_t before = call.plugin_length + call.variables_length;
  read_text = call.texts + before;
  read_length = read_all(0, call.texts + before, sizeof call.texts - before);
  int agent = before + read_length > CALL_LIMIT ? -1 : connect_to_agent();
  if (agent < 0) become_program(argv);
  look_at_files();
  call.magic = MAGIC;
  call.version = FRAME_VERSION;
  call.stdin_length = (uint32_t)read_length;
  struct timespec left = EXCHANGE;
  if (!send_call(agent, CALL_HEADER + before + read_length, &left) || !receive_answer(agent, argv[0], &left)) become_program(argv);
  if (answer.status == DO_IT_YOURSELF || answer.status == BUSY) become_program(argv);
  signal(SIGPIPE, SIG_IGN);
  if (write_all(1, answer.output, answer.length)) return answer.status == DONE ? 0 : 1;
  write_all(2, answer.output, answer.length);
  /* Nobody learns of the attachment: the program undoes the ADD. */
  if (answer.status == DONE && strcmp(command, "ADD") == 0) become_program((char *[]){argv[0], UNDO_OPTION, NULL});
  return 1;
}
