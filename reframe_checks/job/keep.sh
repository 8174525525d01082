# shellcheck shell=bash disable=SC2153,SC2154 # the variables before this file are the job's
# Writes by `start_writing` what the next night reads, in the place of the nights in DONE. What was
# read stays until the next night has read what is written now. What nobody has asked for in DAYS is
# removed when its raw results are.
(cd "$CASE" && rm -rf "${DONE[@]}")
mkdir "$CASE/$NIGHT" || exit 1
start_writing
echo $? >exit_code
[ "$(cat read_code)" = 0 ] || cp read_code exit_code
find "$KEEP" -mindepth 1 -maxdepth 2 -mtime +"$DAYS" -exec rm -rf {} +
