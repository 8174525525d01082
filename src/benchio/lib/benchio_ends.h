/* What ends a run early, between ends.c, which notes it, watchdog.c, which acts on it, notice.c,
 * which tells rank 0, and small_writes.c, which looks at the filesystem. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The watchdog of a process; watchdog.c says more. */
int32_t benchio_start_watchdog(int32_t rank, const char *host);
void benchio_guard(const char *files, const char *companions, const char *probe,
                   const char *directories, const char *written, int64_t bytes);
void benchio_watch(int32_t seconds, int32_t delay, const char *phase, const char *place,
                   const char *backend, int32_t probes);

/* Exit codes, as failure.f90 has them. */
enum { exit_io = 3, exit_time_limit = 5, exit_library = 7 };

/* Why a rank ends: for the result file, which rank 0 writes, and for the line on standard error. */
struct notice {
    int32_t status, rank;
    char host[256], call[64], path[4096], message[512];
};

void benchio_watch_failed(int32_t seconds, int32_t delay, const char *failure,
                          const struct notice *met, int32_t probes, int32_t may_be_cut,
                          int32_t tells);

void benchio_catch_ends(int32_t has_watchdog);
int benchio_told_to_end(void);
int benchio_is_warned(void);
const char *benchio_signal_name(int number);
int benchio_is_ended_inside(void);
int32_t benchio_ended_in_words(char *call, int32_t call_size, char *text, int32_t size);

_Noreturn void benchio_exit(int status);
_Noreturn void benchio_exit_at_once(int status);

int benchio_send_notice(const struct notice *notice);
int benchio_wait_for_notice(struct notice *notice, int milliseconds);

int benchio_start_thread(void *(*work)(void *), size_t stack);
void benchio_try_at(const char *probe, const char *written, int64_t bytes);
int benchio_try_small_writes(int is_beside_tried);
int benchio_met_in_words(char *text, int size, int is_beside_tried);
void benchio_wait_for(const volatile int *value, const volatile int *other, int not_known,
                      int most);
