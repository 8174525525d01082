/* The clock behind watchdog.f90: a thread, for a signal reaches no process whose call the kernel
 * does not let go, as when a metadata server hangs. What may hang itself is left to another. */
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
int32_t benchio_stripe_places(const char *path, int64_t bytes, int32_t most, int64_t *offsets,
                              int32_t *osts);
void benchio_strerror(int error, char *text, int32_t size);

enum { stack_bytes = 256 * 1024, unknown = -1, not_tried = -2, most_stripes = 2000 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t is_earlier; /* than what the clock sleeps for */
    int has_clock, is_armed, is_over;
    struct timespec limit, sleeps_until;
    char file[PATH_MAX], probe[PATH_MAX], written[PATH_MAX], message[PATH_MAX + 256];
    int64_t bytes; /* that the file at `written` is to have */
    char companions[64]; /* follows `file` in the names of more files, which go with it; or empty */
    char *directories; /* each ended by NUL, the last by two */
    int probes, status;
    unsigned delay;
    volatile int is_done; /* the removal of the directories */
} watched = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

/* A thread that takes no signal: those are for who calls the libraries. */
static int start(void *(*work)(void *))
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_bytes);
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
    count = benchio_stripe_places(watched.written, watched.bytes, most_stripes, met.offsets,
                                  met.osts);
    met.count = count;
    if (count > 0 && benchio_probe_places(watched.written, count, met.offsets, met.errors) != 0)
        met.count = 0; /* it is gone */
    met.stripes = met.count;
    return NULL;
}

static void *remove_file(void *unused)
{
    (void)unused;
    if (watched.file[0] != '\0')
        benchio_remove_family(watched.file, watched.companions);
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
    char text[sizeof watched.message + 1024];
    int length = snprintf(text, sizeof watched.message, "%s", watched.message);
    ssize_t written;

    if (watched.probes)
        length += met_in_words(text + length, (int)sizeof text - length - 1, is_beside_tried);
    text[length++] = '\n';
    written = write(STDERR_FILENO, text, (size_t)length);
    (void)written;
}

/* Waits for a second, or less, until both are known. */
static void wait_for(const volatile int *value, const volatile int *other, int not_yet)
{
    const struct timespec moment = {.tv_nsec = 10000000};

    for (int i = 0; i < 100 && (*value == not_yet || *other == not_yet); i++)
        nanosleep(&moment, NULL);
}

/* Waits for the limit; then the file goes, as every rank's does, and after the delay this process.
 * A write is tried before, for the file may be what fills the filesystem. */
static void *keep_watch(void *unused)
{
    const struct timespec forever = {.tv_sec = INT32_MAX};
    int tries_beside, answers = 1;

    (void)unused;
    pthread_mutex_lock(&watched.lock);
    while (!watched.is_armed || is_before(now(), watched.limit)) {
        watched.sleeps_until = watched.is_armed ? watched.limit : forever;
        pthread_cond_timedwait(&watched.is_earlier, &watched.lock, &watched.sleeps_until);
    }
    watched.is_over = 1;
    pthread_mutex_unlock(&watched.lock); /* nobody changes what is watched any more */

    tries_beside = watched.probes && !benchio_names_error(watched.message);
    if (watched.probes) {
        met.beside = tries_beside ? unknown : 0;
        met.stripes = unknown;
        if (tries_beside)
            start(probe_beside);
        start(probe_stripes);
        wait_for(&met.beside, &met.stripes, unknown);
        answers = met.beside != unknown;
    }
    start(remove_file);
    for (unsigned left = watched.delay; left > 0;)
        left = sleep(left);
    say(tries_beside);
    if (answers) { /* else that would not end either */
        start(remove_directories);
        wait_for(&watched.is_done, &watched.is_done, 0);
    }
    benchio_end_program();
    _exit(watched.status);
}

/* The clock starts with the first limit. */
static void start_clock(void)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&watched.is_earlier, &attributes);
    pthread_condattr_destroy(&attributes);
    watched.sleeps_until = now();
    watched.has_clock = start(keep_watch) == 0;
}

/* What a hang would leave: a file, unless its name is empty, with the files whose names go on with
 * `companions`, unless that is empty, and directories; where a small write can be tried; and the file that this rank writes, which
 * another may have made, with the bytes that it is to have; empty: none. They are not to change
 * while a limit runs. */
void benchio_guard(const char *file, const char *companions, const char *probe,
                   const char *directories, const char *written, int64_t bytes)
{
    const char *end = directories;

    while (*end != '\0')
        end += strlen(end) + 1;
    snprintf(watched.file, sizeof watched.file, "%s", file);
    snprintf(watched.companions, sizeof watched.companions, "%s", companions);
    snprintf(watched.probe, sizeof watched.probe, "%s", probe);
    snprintf(watched.written, sizeof watched.written, "%s", written);
    watched.bytes = bytes;
    free(watched.directories);
    watched.directories = malloc((size_t)(end - directories) + 1);
    if (watched.directories != NULL)
        memcpy(watched.directories, directories, (size_t)(end - directories) + 1);
}

/* Unless called again within so many seconds, remove the file and, after so many more of delay, say
 * message, with what small writes meet if these are to be tried, remove the directories that are
 * empty, and end this process. With 0 seconds never. Once the limit is over the end cannot be put
 * off: a call then waits for it. */
void benchio_watch(int32_t seconds, int32_t delay, const char *message, int32_t probes,
                   int32_t status)
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
        watched.delay = (unsigned)delay;
        watched.probes = probes;
        watched.status = status;
        watched.limit = limit;
        if (!watched.has_clock)
            start_clock();
        else if (is_before(limit, watched.sleeps_until)) /* else it wakes in time by itself */
            pthread_cond_signal(&watched.is_earlier);
    }
    pthread_mutex_unlock(&watched.lock);
}
