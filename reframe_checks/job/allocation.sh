# shellcheck shell=bash disable=SC2153,SC2154 # the variables before this file are the job's
# Gets into the allocation that all cases of a filesystem share. The first case asks for it, by the
# options ASKED of sbatch. It ends by itself if nobody has begun a case in it for MINUTES, longer
# than one may take: whoever should release it may be killed. It counts looks, whatever is the time.
mkdir -p "$ALLOCATION" && touch "$ALLOCATION/in_use" || exit 1
[ -s "$ALLOCATION/job" ] || sbatch --parsable "${ASKED[@]}" \
    --wrap "while used=\$(stat -c %y $ALLOCATION/in_use) && [ \$((idle += 1)) -le $((12 * MINUTES)) ]; do \
[ \"\$used\" = \"\$before\" ] || idle=0; before=\$used; sleep 5; done" |
    grep -oE '^[0-9]+(;|$)' | tail -n 1 | tr -d ';' >"$ALLOCATION/job"
SLURM_JOB_ID=$(cat "$ALLOCATION/job")
[ "$SLURM_JOB_ID" ] || exit 1
export SLURM_JOB_ID
# A squeue that fails, as while Slurm is busy or begins anew, says nothing of the allocation.
while :; do
    if queue=$(bash -c "$QUEUE"); then
        case $(awk -v job="$SLURM_JOB_ID" '$1 == job { print $2 }' <<<"$queue") in
        RUNNING) break ;;
        '')
            echo "the allocation, job $SLURM_JOB_ID, has ended" >&2
            exit 1
            ;;
        esac
    fi
    touch "$ALLOCATION/in_use"
    sleep 2
done
: >"$GRANTED" || exit 1
