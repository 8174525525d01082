# shellcheck shell=bash disable=SC2153,SC2154 # the variables before this file are the job's
# Finds the directory LAST of what the night BEFORE has kept of the case NAME. What is kept is this
# user's own, by case and by night; another site of the same user may keep its nights there, too.
# Files without a record are of a run that did not end.
KEEP="$PLACE/kept.$(id -u)"
[ -e "$KEEP" ] || [ -L "$KEEP" ] || mkdir -m 700 "$KEEP"
{ [ -d "$KEEP" ] && [ ! -L "$KEEP" ] && [ -O "$KEEP" ]; } ||
    refuse "$KEEP is not a directory of this user" "remove it"
require_here() { # neither a link nor a mount leads to another filesystem
    local here=${FACTS[0]}
    look_at "$1"
    [ "${FACTS[0]}" = "$here" ] || elsewhere "$1, which has what is kept, is on ${FACTS[0]}, mounted from
${FACTS[1]}, and $PLACE is on $here: remove what is in its place"
}
CASE="$KEEP/$NAME"
require_here "$CASE"
mkdir -p "$CASE" || exit 1
LAST=
for record in "$CASE/$BEFORE"/benchio.*/kept.nml; do
    [ ! -e "$record" ] || LAST=${record%/*}
done
[ -z "$LAST" ] || require_here "$LAST"
echo "$LAST" >"$LAST_FILE"
echo 0 >read_code
