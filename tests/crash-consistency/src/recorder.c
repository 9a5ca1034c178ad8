/* Records the calls of one process that change a folder, in the order in which they took effect.
 *
 * Preloaded into the program under test (LD_PRELOAD). Every wrapper takes one lock, makes the call by
 * syscall(2) and appends a record while it holds the lock, so that the order of the records is an order
 * in which the calls may have happened one after the other. What it cannot describe is recorded as
 * UNMODELLED, and whoever reads the record gives up.
 *
 *   CRASH_ROOT     absolute folder; calls on files outside are not recorded
 *   CRASH_TRACE    file that records are appended to
 *   CRASH_MARK     a file whose writes are recorded as marks (places that the program passed)
 *   CRASH_KILL_AT  the process ends by SIGKILL once the n-th recorded call took effect, unanswered
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum op {
    CREATE = 1, WRITE, TRUNCATE, SYNC_FILE, SYNC_DIR, LINK, RENAME, UNLINK, MAKE_DIR, REMOVE_DIR,
    MARK, SYNC_ALL, SYNC_RANGE, UNMODELLED
};

static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX], mark[PATH_MAX];
static size_t root_length;
static int trace = -1;
static long kill_at, calls;

__attribute__((constructor)) static void begin(void) {
    const char *to = getenv("CRASH_TRACE"), *at = getenv("CRASH_ROOT");
    if (!to || !at) return;
    snprintf(root, sizeof root, "%s", at);
    root_length = strlen(root);
    const char *marks = getenv("CRASH_MARK"), *stop = getenv("CRASH_KILL_AT");
    if (marks) snprintf(mark, sizeof mark, "%s", marks);
    if (stop) kill_at = atol(stop);
    trace = (int)syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (trace < 0) abort();
    /* Programs that this one starts are not recorded. */
    unsetenv("CRASH_TRACE");
    unsetenv("LD_PRELOAD");
}

static void put(const void *bytes, size_t n) {
    const char *at = bytes;
    while (n > 0) {
        long done = syscall(SYS_write, trace, at, n);
        if (done <= 0) abort(); /* a record with a hole is worse than none */
        at += done;
        n -= (size_t)done;
    }
}

struct head {
    uint32_t op, thread;
    int64_t inode, offset;
    uint64_t first, second;
};

static void emit(enum op op, int64_t inode, int64_t offset, const char *path, const void *more, size_t n) {
    struct head head = {op, (uint32_t)syscall(SYS_gettid), inode, offset, path ? strlen(path) : 0, n};
    put(&head, sizeof head);
    if (path) put(path, head.first);
    put(more, n);
    /* The lock is held: nobody else makes a further call before the end. */
    if (kill_at && ++calls == kill_at) {
        syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
        for (;;) syscall(SYS_sched_yield);
    }
}

static void enter(void) { pthread_mutex_lock(&order); }

static void leave(void) {
    int kept = errno;
    pthread_mutex_unlock(&order);
    errno = kept;
}

static int below(const char *path) {
    return strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || path[root_length] == 0);
}

/* Name of an open file; 0 where it has none. */
static int name_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long n = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* 0: none of our business, 1: a file in the folder, 2: the file of marks. */
static int concerns(int fd, char *path) {
    int kept = errno, what = 0;
    if (trace >= 0 && fd != trace && name_of(fd, path))
        what = below(path) ? 1 : mark[0] && strcmp(path, mark) == 0 ? 2 : 0;
    errno = kept;
    return what;
}

/* An argument as an absolute path; 1 where it lies in the folder. */
static int absolute(int dirfd, const char *path, char *whole) {
    if (trace < 0 || !path) return 0;
    int kept = errno, inside = 0;
    char base[PATH_MAX] = "";
    if (path[0] != '/') {
        if (dirfd == AT_FDCWD) {
            if (syscall(SYS_getcwd, base, sizeof base) < 0) base[0] = 0;
        } else {
            name_of(dirfd, base);
        }
    }
    int n = snprintf(whole, PATH_MAX, "%s%s%s", base, base[0] ? "/" : "", path);
    inside = n < PATH_MAX && below(whole);
    errno = kept;
    return inside;
}

static int64_t inode_of(int fd) {
    struct stat found;
    return fstat(fd, &found) == 0 ? (int64_t)found.st_ino : -1;
}

static void unmodelled(const char *what) { emit(UNMODELLED, 0, 0, what, "", 0); }

/* open */

static int open_at(int dirfd, const char *path, int flags, mode_t mode) {
    char whole[PATH_MAX];
    int makes = (flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE || (flags & O_DSYNC);
    if (!makes || !absolute(dirfd, path, whole))
        return (int)syscall(SYS_openat, dirfd, path, flags, mode);
    enter();
    int existed = syscall(SYS_faccessat, dirfd, path, F_OK) == 0;
    int fd = (int)syscall(SYS_openat, dirfd, path, flags, mode);
    int kept = errno;
    if (fd >= 0) {
        if ((flags & O_TMPFILE) == O_TMPFILE) unmodelled("open(O_TMPFILE)");
        if (flags & O_DSYNC) unmodelled("open(O_SYNC)");
        if (!existed) emit(CREATE, inode_of(fd), 0, whole, "", 0);
        else if (flags & O_TRUNC) emit(TRUNCATE, inode_of(fd), 0, whole, "", 0);
    }
    errno = kept;
    leave();
    return fd;
}

#define MODE(flags, mode)                                                       \
    mode_t mode = 0;                                                            \
    if (((flags) & O_CREAT) || ((flags) & O_TMPFILE) == O_TMPFILE) {            \
        va_list rest;                                                           \
        va_start(rest, flags);                                                  \
        mode = (mode_t)va_arg(rest, int);                                       \
        va_end(rest);                                                           \
    }

int open(const char *path, int flags, ...) { MODE(flags, mode) return open_at(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags, mode) return open_at(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int dirfd, const char *path, int flags, ...) { MODE(flags, mode) return open_at(dirfd, path, flags, mode); }
int openat64(int dirfd, const char *path, int flags, ...) { MODE(flags, mode) return open_at(dirfd, path, flags | O_LARGEFILE, mode); }
int creat(const char *path, mode_t mode) { return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

/* content */

static void wrote(int what, int fd, const char *path, int64_t offset, const void *bytes, size_t n) {
    emit(what == 2 ? MARK : WRITE, inode_of(fd), offset, path, bytes, n);
}

ssize_t write(int fd, const void *bytes, size_t n) {
    char path[PATH_MAX];
    int what = concerns(fd, path);
    if (!what) return syscall(SYS_write, fd, bytes, n);
    enter();
    ssize_t done = syscall(SYS_write, fd, bytes, n);
    int kept = errno;
    if (done > 0) wrote(what, fd, path, syscall(SYS_lseek, fd, 0, SEEK_CUR) - done, bytes, (size_t)done);
    errno = kept;
    leave();
    return done;
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t offset) {
    char path[PATH_MAX];
    int what = concerns(fd, path);
    if (!what) return syscall(SYS_pwrite64, fd, bytes, n, offset);
    enter();
    ssize_t done = syscall(SYS_pwrite64, fd, bytes, n, offset);
    int kept = errno;
    if (done > 0) wrote(what, fd, path, offset, bytes, (size_t)done);
    errno = kept;
    leave();
    return done;
}
ssize_t pwrite(int fd, const void *bytes, size_t n, off_t offset) { return pwrite64(fd, bytes, n, offset); }

/* Bytes that did not come from one buffer are read back from the file. */
static void read_back(int what, int fd, const char *path, int64_t offset, ssize_t done) {
    char link[64], *bytes = malloc((size_t)done);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int again = (int)syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0);
    ssize_t got = again < 0 || !bytes ? -1 : syscall(SYS_pread64, again, bytes, (size_t)done, offset);
    if (got == done) wrote(what, fd, path, offset, bytes, (size_t)done);
    else unmodelled("written bytes that cannot be read back");
    if (again >= 0) syscall(SYS_close, again);
    free(bytes);
}

#define COPYING(fd, offset_after, call)                                         \
    char path[PATH_MAX];                                                        \
    int what = concerns(fd, path);                                              \
    if (!what) return call;                                                     \
    enter();                                                                    \
    ssize_t done = call;                                                        \
    int kept = errno;                                                           \
    if (done > 0) read_back(what, fd, path, (offset_after) - done, done);       \
    errno = kept;                                                               \
    leave();                                                                    \
    return done

ssize_t writev(int fd, const struct iovec *parts, int n) {
    COPYING(fd, syscall(SYS_lseek, fd, 0, SEEK_CUR), syscall(SYS_writev, fd, parts, n));
}
ssize_t pwritev64(int fd, const struct iovec *parts, int n, off64_t offset) {
    COPYING(fd, offset + done, syscall(SYS_pwritev, fd, parts, n, offset, 0));
}
ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t offset) { return pwritev64(fd, parts, n, offset); }
ssize_t sendfile64(int out, int in, off64_t *offset, size_t n) {
    COPYING(out, syscall(SYS_lseek, out, 0, SEEK_CUR), syscall(SYS_sendfile, out, in, offset, n));
}
ssize_t sendfile(int out, int in, off_t *offset, size_t n) { return sendfile64(out, in, offset, n); }
ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t n, unsigned flags) {
    COPYING(out, to ? *to : syscall(SYS_lseek, out, 0, SEEK_CUR),
            syscall(SYS_copy_file_range, in, from, out, to, n, flags));
}
ssize_t splice(int in, off64_t *from, int out, off64_t *to, size_t n, unsigned flags) {
    COPYING(out, to ? *to : syscall(SYS_lseek, out, 0, SEEK_CUR),
            syscall(SYS_splice, in, from, out, to, n, flags));
}

/* Calls that return 0 and are recorded where they did. */
#define SIMPLE(inside, call, record)                                            \
    if (!(inside)) return (int)(call);                                          \
    enter();                                                                    \
    int answer = (int)(call);                                                   \
    int kept = errno;                                                           \
    if (answer == 0) { record; }                                                \
    errno = kept;                                                               \
    leave();                                                                    \
    return answer

int ftruncate64(int fd, off64_t length) {
    char path[PATH_MAX];
    SIMPLE(concerns(fd, path) == 1, syscall(SYS_ftruncate, fd, length),
           emit(TRUNCATE, inode_of(fd), length, path, "", 0));
}
int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }
int truncate64(const char *path, off64_t length) {
    char whole[PATH_MAX];
    SIMPLE(absolute(AT_FDCWD, path, whole), syscall(SYS_truncate, path, length), unmodelled("truncate"));
}
int truncate(const char *path, off_t length) { return truncate64(path, length); }
int fallocate64(int fd, int mode, off64_t offset, off64_t length) {
    char path[PATH_MAX];
    SIMPLE(concerns(fd, path) == 1, syscall(SYS_fallocate, fd, mode, offset, length), unmodelled("fallocate"));
}
int fallocate(int fd, int mode, off_t offset, off_t length) { return fallocate64(fd, mode, offset, length); }
int posix_fallocate64(int fd, off64_t offset, off64_t length) {
    return fallocate64(fd, 0, offset, length) == 0 ? 0 : errno;
}
int posix_fallocate(int fd, off_t offset, off_t length) { return posix_fallocate64(fd, offset, length); }

/* durability */

static void synced(int fd, const char *path) {
    struct stat found;
    if (fstat(fd, &found) == 0)
        emit(S_ISDIR(found.st_mode) ? SYNC_DIR : SYNC_FILE, (int64_t)found.st_ino, 0, path, "", 0);
}
int fsync(int fd) {
    char path[PATH_MAX];
    SIMPLE(concerns(fd, path) == 1, syscall(SYS_fsync, fd), synced(fd, path));
}
int fdatasync(int fd) {
    char path[PATH_MAX];
    SIMPLE(concerns(fd, path) == 1, syscall(SYS_fdatasync, fd), synced(fd, path));
}
int sync_file_range(int fd, off64_t offset, off64_t length, unsigned flags) {
    char path[PATH_MAX];
    SIMPLE(concerns(fd, path) == 1, syscall(SYS_sync_file_range, fd, offset, length, flags),
           emit(SYNC_RANGE, inode_of(fd), offset, path, "", 0));
}
int syncfs(int fd) {
    SIMPLE(trace >= 0, syscall(SYS_syncfs, fd), emit(SYNC_ALL, 0, 0, "", "", 0));
}
void sync(void) {
    syscall(SYS_sync);
    if (trace < 0) return;
    enter();
    emit(SYNC_ALL, 0, 0, "", "", 0);
    leave();
}

/* names */

static int two(int op, int from_dir, const char *from, int to_dir, const char *to, int flags) {
    char first[PATH_MAX], second[PATH_MAX];
    int inside = absolute(from_dir, from, first) | absolute(to_dir, to, second);
    long number = op == LINK ? SYS_linkat : SYS_renameat2;
    SIMPLE(inside, syscall(number, from_dir, from, to_dir, to, flags), {
        if (op == LINK && (flags & AT_EMPTY_PATH)) unmodelled("linkat(AT_EMPTY_PATH)");
        if (op == RENAME && (flags & ~1)) unmodelled("renameat2 with flags");
        if (!absolute(from_dir, from, first) || !absolute(to_dir, to, second))
            unmodelled("a name that crosses the border of the folder");
        emit(op, 0, 0, first, second, strlen(second));
    });
}
int link(const char *from, const char *to) { return two(LINK, AT_FDCWD, from, AT_FDCWD, to, 0); }
int linkat(int a, const char *from, int b, const char *to, int flags) { return two(LINK, a, from, b, to, flags); }
int rename(const char *from, const char *to) { return two(RENAME, AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int a, const char *from, int b, const char *to) { return two(RENAME, a, from, b, to, 0); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) { return two(RENAME, a, from, b, to, (int)flags); }

int unlinkat(int dirfd, const char *path, int flags) {
    char whole[PATH_MAX];
    SIMPLE(absolute(dirfd, path, whole), syscall(SYS_unlinkat, dirfd, path, flags),
           emit(flags & AT_REMOVEDIR ? REMOVE_DIR : UNLINK, 0, 0, whole, "", 0));
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int dirfd, const char *path, mode_t mode) {
    char whole[PATH_MAX];
    SIMPLE(absolute(dirfd, path, whole), syscall(SYS_mkdirat, dirfd, path, mode),
           emit(MAKE_DIR, 0, 0, whole, "", 0));
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int symlinkat(const char *target, int dirfd, const char *path) {
    char whole[PATH_MAX];
    SIMPLE(absolute(dirfd, path, whole), syscall(SYS_symlinkat, target, dirfd, path), unmodelled("symlink"));
}
int symlink(const char *target, const char *path) { return symlinkat(target, AT_FDCWD, path); }
