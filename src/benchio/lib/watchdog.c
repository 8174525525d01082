/* The thread behind watchdog.f90, and the signals that end a run. A signal alone reaches no process
 * whose call the kernel does not let go, as when a metadata server hangs. The thread leaves to
 * another whatever may hang itself. */
#define _GNU_SOURCE

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void benchio_end_program(void);
int benchio_names_error(const char *message);
int benchio_probe_end(const char *path, int64_t bytes);
int benchio_probe_places(const char *path, int32_t count, const int64_t *offsets,
                         volatile int32_t *errors);
int benchio_probe_write(const char *path);
int benchio_remove_family(const char *path, const char *mark);
int32_t benchio_stripe_places(int32_t length, const char *path, int64_t bytes, int32_t most,
                              int64_t *offsets, int32_t *osts);
int benchio_strerror(int error, char *text, int32_t size);

enum { stack_bytes = 256 * 1024, report_stack_bytes = 64 * 1024 * 1024, unknown = -1,
       not_tried = -2, most_stripes = 2000 };

/* Nanoseconds between two looks at the time. A look costs some microseconds. */
enum { tick = 250000000 };

/* Seconds from the time limit, or from SIGTERM, until a phase is cut off. */
enum { grace = 5 };

/* Why a run has to end, and how its end begins. */
enum end { not_yet, by_limit, by_warning, by_term, by_hang };

static struct {
    pthread_mutex_t lock;
    int has_clock, is_armed, is_over;
    struct timespec limit;
    char probe[PATH_MAX], written[PATH_MAX], message[PATH_MAX + 256], reason[256];
    int64_t bytes; /* that the file at `written` is to have */
    char companions[64]; /* goes on the names of `files` in more that go with them; or empty */
    char *files, *directories; /* each ended by NUL, the last by two */
    int probes, status, may_be_cut;
    unsigned delay;
    volatile int is_done; /* the removal of the directories */
} watched = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* What ends the run that is under way, be its ranks in a phase or not. */
static struct {
    int is_running, has_limit;
    struct timespec limit;
    void (*report)(int32_t why); /* says all that is known until now; NULL on all ranks but one */
    volatile int has_reported;
    enum end why;
} bound;

static volatile sig_atomic_t is_warned, is_told_to_end;
static struct timespec told_at; /* set before is_told_to_end */

/* What small writes have met: an errno or 0, and unknown until they have ended. */
static struct {
    volatile int beside, end, stripes; /* the number of stripes is unknown until all were tried */
    int32_t count;
    int64_t offsets[most_stripes];
    int32_t osts[most_stripes];
    volatile int32_t errors[most_stripes];
} met = {.beside = unknown};

static int is_before(struct timespec a, struct timespec b)
{
    return a.tv_sec < b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec < b.tv_nsec);
}

static struct timespec now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time;
}

static void note_signal(int signal)
{
    if (signal == SIGTERM && !is_told_to_end) {
        told_at = now();
        is_told_to_end = 1;
    }
    is_warned = 1;
}

/* From now on SIGUSR1, a scheduler's warning, and SIGTERM are only noted. */
void benchio_catch_interrupts(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = note_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* Begins a run that ends after so many seconds, never with 0, and in that case calls report on the
 * rank that has one. A run that has begun ends with benchio_unbound. */
void benchio_bound(int32_t seconds, void (*report)(int32_t why))
{
    pthread_mutex_lock(&watched.lock);
    bound.is_running = 1;
    bound.has_limit = seconds > 0;
    bound.limit = now();
    bound.limit.tv_sec += seconds;
    bound.report = report;
    pthread_mutex_unlock(&watched.lock);
}

void benchio_unbound(void)
{
    pthread_mutex_lock(&watched.lock);
    bound.is_running = 0;
    pthread_mutex_unlock(&watched.lock);
}

/* Why the run has to end, which is over for so many seconds or more. */
static enum end end_due(int seconds)
{
    struct timespec limit = bound.limit, told = told_at, time = now();

    limit.tv_sec += seconds;
    told.tv_sec += seconds;
    if (!bound.is_running)
        return not_yet;
    if (is_told_to_end && !is_before(time, told))
        return by_term;
    return bound.has_limit && !is_before(time, limit) ? by_limit : not_yet;
}

/* Why the run has to end; a warning is a reason only between two rounds. */
int32_t benchio_end_due(int32_t is_between_rounds)
{
    enum end why = end_due(0);

    return why == not_yet && is_between_rounds && bound.is_running && is_warned ? by_warning : why;
}

/* Starts a thread that takes no signal: those are for who calls the libraries. Returns errno. */
static int start(void *(*work)(void *), size_t stack)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    error = pthread_create(&thread, &attributes, work, NULL);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void *probe_beside(void *unused)
{
    (void)unused;
    met.beside = benchio_probe_write(watched.probe);
    return NULL;
}

/* In every stripe of the file that this rank writes. */
static void *probe_stripes(void *unused)
{
    int32_t count;

    (void)unused;
    met.stripes = unknown;
    for (int i = 0; i < most_stripes; i++)
        met.errors[i] = not_tried;
    count = benchio_stripe_places((int32_t)strlen(watched.written), watched.written, watched.bytes,
                                  most_stripes, met.offsets, met.osts);
    met.count = count;
    if (count > 0 && benchio_probe_places(watched.written, count, met.offsets, met.errors) != 0)
        met.count = 0; /* it is gone */
    met.stripes = met.count;
    return NULL;
}

static void *remove_files(void *unused)
{
    (void)unused;
    if (watched.files != NULL)
        for (const char *name = watched.files; *name != '\0'; name += strlen(name) + 1)
            benchio_remove_family(name, watched.companions);
    return NULL;
}

static void *remove_directories(void *unused)
{
    (void)unused;
    if (watched.directories != NULL)
        for (const char *name = watched.directories; *name != '\0'; name += strlen(name) + 1)
            rmdir(name); /* only an empty one goes */
    watched.is_done = 1;
    return NULL;
}

static void *report(void *unused)
{
    (void)unused;
    bound.report(bound.why);
    bound.has_reported = 1;
    return NULL;
}

static int append(char *text, int size, int length, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    if (length < size)
        length += vsnprintf(text + length, (size_t)(size - length), format, values);
    va_end(values);
    return length < size ? length : size - 1;
}

/* In which stripes a byte fails, as the first of those, or does not end. Returns the length. */
static int stripes_in_words(char *text, int size, int length)
{
    enum { shown = 8 };
    char error[256];
    int first = 0, number = 0;

    while (first < met.count && met.errors[first] == 0)
        first++;
    if (first == met.count || met.errors[first] == not_tried)
        return length;
    for (int i = first; i < met.count; i++)
        number += met.errors[i] == met.errors[first];
    length = append(text, size, length, "; of its %d stripe%s, %s on OST", (int)met.count,
                    met.count == 1 ? "" : "s", number == 1 ? "that" : "those");
    for (int i = first, left = number; i < met.count && left > 0; i++) {
        if (met.errors[i] != met.errors[first])
            continue;
        if (number - left == shown) {
            length = append(text, size, length, " and %d more", left);
            break;
        }
        length = append(text, size, length, "%s %d", left-- < number ? "," : "", (int)met.osts[i]);
    }
    if (met.errors[first] == unknown)
        return append(text, size, length, " does not end");
    benchio_strerror(met.errors[first], error, sizeof error);
    return append(text, size, length, " fail%s: %s", number == 1 ? "s" : "", error);
}

/* What small writes have met. Returns the length. */
static int met_in_words(char *text, int size, int is_beside_tried)
{
    char error[256];
    int length = 0;

    text[0] = '\0';
    if (is_beside_tried && met.beside > 0) {
        benchio_strerror(met.beside, error, sizeof error);
        length = append(text, size, length, "; a small write beside it fails: %s", error);
    } else if (is_beside_tried) {
        length = append(text, size, length, "; a small write beside it %s",
                        met.beside == 0 ? "succeeds" : "does not end either");
    }
    if (is_beside_tried && met.end > 0) {
        benchio_strerror(met.end, error, sizeof error);
        length = append(text, size, length, ", one at its end fails: %s", error);
    }
    return stripes_in_words(text, size, length);
}

/* What small writes meet beside the file that this rank has failed to write, which is tried unless
 * the failure says it itself; in each of its stripes; and else at its end. */
void benchio_diagnose(const char *message, char *text, int32_t size)
{
    const int is_unnamed = !benchio_names_error(message);

    if (is_unnamed)
        probe_beside(NULL);
    probe_stripes(NULL);
    if (is_unnamed && met.beside == 0 && met.count == 0)
        met.end = benchio_probe_end(watched.written, watched.bytes);
    met_in_words(text, size, is_unnamed);
    met.end = 0;
    met.count = 0;
    met.beside = unknown;
}

static void say(int is_beside_tried)
{
    static const char *const cuts[] = {
        [by_limit] = "cut off after the time limit (--time-limit)",
        [by_term] = "cut off by SIGTERM",
    };
    char text[sizeof watched.message + sizeof watched.reason + 1024];
    const int is_failure = watched.reason[0] == '\0';
    const char *why = is_failure || bound.why == by_hang ? watched.reason : cuts[bound.why];
    int length = snprintf(text, sizeof text - 1024, "%s%s", watched.message, why);
    ssize_t written;

    if (watched.probes)
        length += met_in_words(text + length, (int)sizeof text - length - 1, is_beside_tried);
    text[length++] = '\n';
    written = write(STDERR_FILENO, text, (size_t)length);
    (void)written;
}

/* Waits until both are known, so many hundredths of a second at most. */
static void wait_for(const volatile int *value, const volatile int *other, int not_known, int most)
{
    const struct timespec moment = {.tv_nsec = 10000000};

    for (int i = 0; i < most && (*value == not_known || *other == not_known); i++)
        nanosleep(&moment, NULL);
}

/* Looks, under the lock, whether the end has come. A thread that the kernel does not let go takes
 * no signal, but the process has it. */
static enum end look(void)
{
    sigset_t pending;

    if (sigpending(&pending) == 0 && sigismember(&pending, SIGTERM) == 1)
        note_signal(SIGTERM);
    if (!watched.is_armed)
        return not_yet;
    if (!is_before(now(), watched.limit))
        return by_hang;
    return watched.may_be_cut ? end_due(grace) : not_yet;
}

/* Waits for the end; then the files go, as every rank's do, and after the delay this process. After
 * a hang a write is tried before, for the file may be what fills the filesystem. */
static void *keep_watch(void *unused)
{
    const struct timespec pause = {.tv_nsec = tick};
    int tries_beside, answers = 1, reports;

    (void)unused;
    for (;;) {
        pthread_mutex_lock(&watched.lock);
        bound.why = look();
        watched.is_over = bound.why != not_yet;
        pthread_mutex_unlock(&watched.lock); /* nobody changes what is watched any more */
        if (watched.is_over)
            break;
        nanosleep(&pause, NULL);
    }

    if (bound.why != by_hang)
        watched.probes = 0;
    tries_beside = watched.probes && !benchio_names_error(watched.message);
    if (watched.probes) {
        met.beside = tries_beside ? unknown : 0;
        met.stripes = unknown;
        if (tries_beside)
            start(probe_beside, stack_bytes);
        start(probe_stripes, stack_bytes);
        wait_for(&met.beside, &met.stripes, unknown, 100);
        answers = met.beside != unknown;
    }
    start(remove_files, stack_bytes);
    reports = bound.why != by_hang && watched.reason[0] != '\0' && bound.report != NULL
        && start(report, report_stack_bytes) == 0;
    for (unsigned left = watched.delay; left > 0;)
        left = sleep(left);
    if (reports)
        wait_for(&bound.has_reported, &bound.has_reported, 0, 200);
    if (!bound.has_reported)
        say(tries_beside);
    if (answers) { /* else that would not end either */
        start(remove_directories, stack_bytes);
        wait_for(&watched.is_done, &watched.is_done, 0, 100);
    }
    benchio_end_program();
    _exit(watched.status);
}

/* Starts the thread, unless there is one. Returns errno: without it a hang would have no end. */
int32_t benchio_start_watchdog(void)
{
    int error = watched.has_clock ? 0 : start(keep_watch, stack_bytes);

    watched.has_clock = error == 0;
    return error;
}

/* A copy of texts, each ended by NUL, the last by two. */
static char *copy(const char *texts)
{
    const char *end = texts;
    char *new;

    while (*end != '\0')
        end += strlen(end) + 1;
    new = malloc((size_t)(end - texts) + 1);
    if (new != NULL)
        memcpy(new, texts, (size_t)(end - texts) + 1);
    return new;
}

/* Notes what an end would leave: files, with those whose names go on with `companions` unless that
 * is empty, and directories, each ended by NUL and the last by two; where a small write can be
 * tried; and the file that this rank writes, which another may have made, with the bytes that it is
 * to have; empty: none. They may not change while a limit runs. */
void benchio_guard(const char *files, const char *companions, const char *probe,
                   const char *directories, const char *written, int64_t bytes)
{
    snprintf(watched.companions, sizeof watched.companions, "%s", companions);
    snprintf(watched.probe, sizeof watched.probe, "%s", probe);
    snprintf(watched.written, sizeof watched.written, "%s", written);
    watched.bytes = bytes;
    free(watched.files);
    free(watched.directories);
    watched.files = copy(files);
    watched.directories = copy(directories);
}

/* Unless called again within so many seconds, remove the files and, after so many more of delay,
 * say message and reason, with what small writes meet if these are to be tried, remove the
 * directories that are empty, and end this process. With 0 seconds never. Do the same, with another
 * reason, when the run has to end, if it may be cut off. Without a reason the message is a
 * failure's and whole. Once that has begun the end cannot be put off: a call then waits for it. */
void benchio_watch(int32_t seconds, int32_t delay, const char *message, const char *reason,
                   int32_t probes, int32_t status, int32_t may_be_cut)
{
    struct timespec limit = now();

    limit.tv_sec += seconds;
    pthread_mutex_lock(&watched.lock);
    while (watched.is_over) {
        pthread_mutex_unlock(&watched.lock);
        pause();
        pthread_mutex_lock(&watched.lock);
    }
    watched.is_armed = seconds > 0;
    if (watched.is_armed) {
        snprintf(watched.message, sizeof watched.message, "%s", message);
        snprintf(watched.reason, sizeof watched.reason, "%s", reason);
        watched.delay = (unsigned)delay;
        watched.probes = probes;
        watched.status = status;
        watched.may_be_cut = may_be_cut;
        watched.limit = limit;
    }
    pthread_mutex_unlock(&watched.lock);
}
