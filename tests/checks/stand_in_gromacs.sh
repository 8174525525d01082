#!/bin/bash
# Stands in for GROMACS where only judging is tested. It computes nothing: its trajectory is a line
# for each frame. Started as `gmx_mpi`, through a script that sets FAULT. It takes the options of
# the check alone, and the files that they name must be there.
rank=${OMPI_COMM_WORLD_RANK:-0}
command=$1
shift
while [ $# -gt 0 ]; do
    case $command/$1 in
    solvate/-cs | solvate/-o | grompp/-o | mdrun/-deffnm | mdrun/-ntomp) shift ;;
    solvate/-box) shift 3 ;;
    solvate/-p | grompp/-[fcp] | mdrun/-s | check/-f)
        [ -e "$2" ] || { echo "Fatal error: there is no file $2" >&2; exit 1; }
        shift ;;
    mdrun/-reprod | --version/*) ;;
    *) echo "Error in user input: $command knows no $1" >&2; exit 1 ;;
    esac
    shift
done
case $command in
solvate)
    [ "$FAULT" != "no input" ] || { echo "Fatal error: no water" >&2; exit 1; }
    touch water.gro ;;
grompp) touch water.tpr ;;
mdrun)
    [ "$rank" = 0 ] || exit 0
    printf 'GROMACS version:    2022.5-stand-in\n Write traj. 2 1 51 0.001 1.334 10.8\n' >water.log
    [ "$FAULT" != "no output" ] || exit 0
    [ "$FAULT" != "no times" ] || : >water.log
    seq "$([ "$FAULT" = "missing frames" ] && echo 50 || echo 51)" >water.trr
    [ "$FAULT" != "other bytes" ] || date +%N >>water.trr
    [ "$FAULT" != "fails" ] || { echo "Fatal error: Cannot write trajectory" >&2; exit 1; } ;;
check)
    frames=$(grep -c . water.trr)
    printf 'Coords %12s    0.002\nVelocities %7s    0.002\n' "$((frames > 51 ? 51 : frames))"{,} >&2 ;;
esac
