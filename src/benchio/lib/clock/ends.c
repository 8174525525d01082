/* What ends a process that is not at its end: the signals of schedulers and limits, which are only
 * noted, and what a library does inside of it, which calls exit or MPI_Abort, or crashes.
 *
 * Whoever ends the process from inside goes no further: the watchdog's thread finds it noted,
 * clears up, and ends the process. Nothing is done in a handler but that. */
#define _GNU_SOURCE

#include "benchio.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <execinfo.h>
#else
#define backtrace(frames, most) 0
#endif

/* Seconds after which a process that was ended from inside ends, should the watchdog have died. */
enum { longest_end = 60 };

enum kind { warns, tells, crashes };

/* One that was ignored from the start, as SIGHUP is under nohup, stays so if it may. */
static const struct {
    int number;
    const char *name;
    enum kind kind;
    int may_stay_ignored;
} signals[] = {
    {SIGUSR1, "SIGUSR1", warns, 0}, {SIGTERM, "SIGTERM", tells, 0},
    {SIGUSR2, "SIGUSR2", tells, 0}, {SIGXCPU, "SIGXCPU", tells, 0},
    {SIGPWR, "SIGPWR", tells, 0},   {SIGHUP, "SIGHUP", tells, 1},
    {SIGINT, "SIGINT", tells, 1},   {SIGQUIT, "SIGQUIT", tells, 1},
    {SIGABRT, "SIGABRT", crashes, 0}, {SIGBUS, "SIGBUS", crashes, 0},
    {SIGFPE, "SIGFPE", crashes, 0},   {SIGILL, "SIGILL", crashes, 0},
    {SIGSEGV, "SIGSEGV", crashes, 0}, {SIGSYS, "SIGSYS", crashes, 0},
    {SIGXFSZ, "SIGXFSZ", crashes, 0}, /* the others might wait for ever for who cannot write */
};
enum { count = sizeof signals / sizeof signals[0] };

static atomic_int warned_by, told_by; /* the signal; 0: none */

enum { most_frames = 32, not_ended = 0, is_noting = 1, is_noted = 2 };

static pid_t process; /* this one, and none that it forks */
static int was_ignored[count]; /* from the start */
static atomic_int is_watched; /* a watchdog ends this process */

static struct {
    atomic_int state;
    const char *call; /* a function or a signal */
    int has_code, code, sender, frames;
    void *frame[most_frames]; /* who was where */
} ended;

const char *benchio_signal_name(int number)
{
    for (int i = 0; i < count; i++)
        if (signals[i].number == number)
            return signals[i].name;
    return "a signal";
}

static void note_signal(int number)
{
    int none = 0;

    for (int i = 0; i < count; i++)
        if (signals[i].number == number)
            atomic_compare_exchange_strong(signals[i].kind == warns ? &warned_by : &told_by, &none,
                                           number);
}

/* Ends a process that has no watchdog yet, and says why. */
static void end_early(void)
{
    char call[32], host[256] = "", text[256], line[640];
    ssize_t written;

    gethostname(host, sizeof host - 1);
    benchio_ended_in_words(call, sizeof call, text, sizeof text);
    snprintf(line, sizeof line, "benchio: error: %s on %s: %s, before the run began\n", call, host,
             text);
    written = write(STDERR_FILENO, line, strlen(line));
    (void)written;
    benchio_exit_at_once(exit_library);
}

/* Notes who ends this process, the first of all, and stays until the watchdog has ended it. */
static __attribute__((noinline, noreturn)) void end_here(const char *call, const int *code,
                                                         int sender)
{
    const struct timespec second = {.tv_sec = 1};
    int none = not_ended;

    if (atomic_compare_exchange_strong(&ended.state, &none, is_noting)) {
        ended.call = call;
        ended.has_code = code != NULL;
        ended.code = code != NULL ? *code : 0;
        ended.sender = sender;
        ended.frames = backtrace(ended.frame, most_frames);
        atomic_store(&ended.state, is_noted);
        if (!atomic_load(&is_watched))
            end_early();
    }
    for (int i = 0; i < longest_end; i++)
        nanosleep(&second, NULL);
    benchio_exit_at_once(exit_library);
}

static void note_crash(int number, siginfo_t *info, void *context)
{
    (void)context;
    end_here(benchio_signal_name(number), NULL,
             info->si_code == SI_USER && info->si_pid != getpid() ? info->si_pid : 0);
}

/* From now on signals that are to end a run are noted, and so is whoever ends this process. After
 * MPI_Init, which sets handlers of its own, this is to be called again. */
void benchio_catch_ends(int32_t has_watchdog)
{
    static char stack[64 * 1024]; /* for a crash by which the usual one is full */
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action;
    void *frame;

    backtrace(&frame, 1); /* the first call loads what it needs, which no handler may */
    sigaltstack(&other, NULL);
    for (int i = 0; i < count; i++) {
        memset(&action, 0, sizeof action);
        if (signals[i].kind == crashes) {
            action.sa_sigaction = note_crash;
            action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        } else {
            action.sa_handler = was_ignored[i] ? SIG_IGN : note_signal;
            action.sa_flags = SA_RESTART;
        }
        sigaction(signals[i].number, &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN); /* who reads what is said may end first, and the result is a file */
    atomic_store(&is_watched, has_watchdog);
}

/* The signal that told this process to end; 0: none. A thread that the kernel does not let go takes
 * none, but the process then has it. */
int benchio_told_to_end(void)
{
    sigset_t pending;

    if (sigpending(&pending) == 0)
        for (int i = 0; i < count; i++)
            if (signals[i].kind == tells && sigismember(&pending, signals[i].number) == 1)
                note_signal(signals[i].number);
    return atomic_load(&told_by);
}

/* The signal that warned this process, be it of an end at once; 0: none. */
int benchio_is_warned(void)
{
    const int number = atomic_load(&warned_by);

    return number != 0 ? number : atomic_load(&told_by);
}

int benchio_is_ended_inside(void)
{
    return atomic_load(&ended.state) == is_noted;
}

/* The file that a frame is in, without its folder; empty: that of the C library, through which
 * others go, or nobody knows. */
static const char *object_of(void *frame)
{
    Dl_info info;
    const char *slash;

    if (dladdr(frame, &info) == 0 || info.dli_fname == NULL)
        return "";
    slash = strrchr(info.dli_fname, '/');
    slash = slash == NULL ? info.dli_fname : slash + 1;
    return strncmp(slash, "libc.", 5) == 0 || strncmp(slash, "libc-", 5) == 0
        || strncmp(slash, "libpthread", 10) == 0 || strncmp(slash, "linux-vdso", 10) == 0 ? ""
                                                                                        : slash;
}

/* The function or signal that has ended this process, and a phrase on whose it was. Returns the
 * exit code that it leads to. */
int32_t benchio_ended_in_words(char *call, int32_t call_size, char *text, int32_t size)
{
    const char *who = "";
    char code[32] = "";
    struct rlimit limit;

    for (int i = 2; i < ended.frames && who[0] == '\0'; i++) /* the first two are of this file */
        who = object_of(ended.frame[i]);
    who = who[0] == '\0' ? "nobody knows who" : who;
    snprintf(call, (size_t)call_size, "%s", ended.call);
    if (strcmp(ended.call, "SIGXFSZ") == 0 && getrlimit(RLIMIT_FSIZE, &limit) == 0) {
        snprintf(text, (size_t)size, "the limit on the size of files (ulimit -f) is %lld bytes",
                 (long long)limit.rlim_cur);
        return exit_io;
    }
    if (ended.has_code)
        snprintf(code, sizeof code, " with code %d", ended.code);
    if (strncmp(ended.call, "SIG", 3) != 0)
        snprintf(text, (size_t)size, "%s called it%s", who, code);
    else if (ended.sender != 0)
        snprintf(text, (size_t)size, "process %d sent it", ended.sender);
    else
        snprintf(text, (size_t)size, "a crash in %s", who);
    return exit_library;
}

static __attribute__((constructor)) void know_process(void)
{
    struct sigaction now;

    process = getpid();
    for (int i = 0; i < count; i++)
        was_ignored[i] |= signals[i].may_stay_ignored && sigaction(signals[i].number, NULL, &now) == 0
            && now.sa_handler == SIG_IGN;
}

#ifdef __GLIBC__
/* Before the libraries: UCX takes SIGHUP as it is loaded, whoever ignored it. */
static __attribute__((section(".preinit_array"), used)) void (*const first)(void) = know_process;
#endif

/* Whether this is no process that a library has forked. */
static int is_ours(void)
{
    return process == 0 || process == getpid();
}

/* This process has come to its end. */
void benchio_exit(int status)
{
    void (*next)(int) __attribute__((noreturn)) = dlsym(RTLD_NEXT, "exit");

    next(status);
}

void benchio_exit_at_once(int status)
{
    for (;;)
        syscall(SYS_exit_group, status);
}

/* The functions by which a library can end its process. They stand before those of the C library
 * and of MPI, as the program's symbols do. Before a run begins a program may well end. */
void exit(int status)
{
    if (is_ours() && (status != 0 || atomic_load(&is_watched)))
        end_here("exit", &status, 0);
    benchio_exit(status);
}

/* Inline: a frame of its own would be taken for that of the library. */
static inline __attribute__((always_inline, noreturn)) void leave(const char *call, int status)
{
    if (is_ours() && (status != 0 || atomic_load(&is_watched)))
        end_here(call, &status, 0);
    benchio_exit_at_once(status);
}

void _exit(int status) { leave("_exit", status); }

void _Exit(int status) { leave("_Exit", status); }

void quick_exit(int status) { leave("quick_exit", status); }

void abort(void)
{
    void (*next)(void) __attribute__((noreturn)) = dlsym(RTLD_NEXT, "abort");

    if (is_ours())
        end_here("abort", NULL, 0);
    next();
}

/* Not all libraries call it by the same name. A communicator is an int or a pointer, by the MPI. */
int PMPI_Abort(intptr_t comm, int code)
{
    int (*next)(intptr_t, int) = dlsym(RTLD_NEXT, "PMPI_Abort");

    if (is_ours())
        end_here("MPI_Abort", &code, 0);
    return next(comm, code);
}

int MPI_Abort(intptr_t comm, int code)
{
    int (*next)(intptr_t, int) = dlsym(RTLD_NEXT, "MPI_Abort");

    if (is_ours())
        end_here("MPI_Abort", &code, 0);
    return next(comm, code);
}
