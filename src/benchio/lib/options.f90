!> What the user asked for, and what a number of writers makes of it.
module benchio_options
    use, intrinsic :: iso_fortran_env, only: int64
    use benchio_decomposition, only: automatic_grid, element_bytes, fits_in_int64, max_extent
    use benchio_settings, only: io_settings
    use benchio_striping, only: striping
    use benchio_text, only: decimal, extents
    implicit none (type, external)
    private

    public :: help_text, plan_array

    type, public :: options
        character(8), allocatable :: backends(:)
        integer(int64) :: local_size(3) = 128       !! elements of each writer; 0: strong scaling
        integer(int64) :: global_size(3) = 0        !! elements of the array; 0 until planned
        integer(int64) :: grid(3) = 0               !! 0: automatic until planned
        integer(int64) :: halo = 1
        integer(int64) :: seed = 1
        integer :: repeats = 10
        integer :: warmup = 1
        integer :: phase_limit = 1800               !! seconds
        character(:), allocatable :: sync           !! none or data
        character(:), allocatable :: verify         !! all, last or none
        character(:), allocatable :: directory
        character(:), allocatable :: filesystems    !! allowed names, comma list; empty: any
        character(:), allocatable :: json           !! empty: no result file
        character(:), allocatable :: files          !! shared, process, node, gather or a number
        character(8), allocatable :: operations(:)  !! write, read
        integer :: instances = 1
        integer :: time_limit = 0                   !! seconds; 0: none
        logical :: phase_barrier = .false.
        type(io_settings) :: settings
        type(striping) :: stripes
        logical :: keep = .false.
        logical :: dry_run = .false.
        logical :: help = .false.
        logical :: version = .false.
    end type options

    character(*), parameter :: lines(*) = [character(88) :: &
        'Usage: mpirun -n P benchio [options]', &
        '', &
        'Writes 3D block-distributed arrays, reads them back, compares every byte, and only then', &
        'reports a bandwidth (MiB/s, MiB = 2^20 bytes).', &
        '', &
        'What is written', &
        '  --backend LIST        mpiio, hdf5, netcdf, pnetcdf, stream; a list in rotated rounds', &
        '                        (mpiio)', &
        '  --operation LIST      write, read, or write,read; for read alone written untimed', &
        '                        (write)', &
        '  --files LAYOUT        shared: one for all; process, node: one each; a number: as many', &
        '                        over equal groups; gather: rank 0 writes (shared)', &
        '  --instances K         equal groups of writers, each a benchmark of its own (1)', &
        '  --local-size N|NxNxN  elements per writer along x, y, z: weak scaling (128)', &
        '  --global-size N|NxNxN elements of the whole array: strong scaling', &
        '  --grid PxQxR          writers of a file along x, y, z (automatic)', &
        '  --halo N              halo width in memory, never written (1)', &
        '  --seed N              of the data (1)', &
        '', &
        'How it is measured', &
        '  --repeats N           measured rounds (10)', &
        '  --warmup N            rounds before them, marked and not counted (1)', &
        '  --sync none|data      data: force it to stable storage, timed as its own phase (data)', &
        '  --verify all|last|none  rounds read back; none: times but no bandwidth (all)', &
        '  --phase-barrier       all ranks, not only those of one file, meet after each phase', &
        '  --phase-limit SECONDS a phase that takes longer is a hang and ends the run (1800)', &
        '  --time-limit SECONDS  begin no round after that; also SIGUSR1, SIGTERM (none)', &
        '', &
        'How the libraries are asked to work', &
        '  --collective yes|no   collective data transfer (yes)', &
        '  --hint KEY=VALUE      an MPI-IO hint; may be repeated', &
        '  --stripe-count N      OSTs of a new file, -1: all; on Lustre only (the directory''s)', &
        '  --stripe-size MIB     on Lustre only (the directory''s)', &
        '  --stripe-offset N     first OST, on Lustre only (the filesystem''s choice)', &
        '  --chunk NxNxN         elements of a chunk, hdf5 and netcdf (contiguous)', &
        '  --alignment BYTES     of objects in the file, hdf5 and pnetcdf (1)', &
        '  --collective-metadata yes|no  hdf5 (yes)', &
        '  --file-format earliest|latest  hdf5 library version bounds (earliest)', &
        '', &
        'Where', &
        '  --dir DIR             existing directory for the files (.)', &
        '  --fs-type LIST        refuse unless DIR is on one of these, as statfs names it', &
        '  --json FILE           result file, format benchio.result/1', &
        '  --keep                leave the files of the last round', &
        '', &
        '  --dry-run             say what would be written and what room there is', &
        '  --version, --help', &
        '', &
        'Exit status: 0 ok, 1 internal, 2 usage, 3 I/O error, 4 verification, 5 time limit,', &
        '6 feature not built in.']

contains

    function help_text() result(text)
        character(:), allocatable :: text

        integer :: i

        text = ''
        do i = 1, size(lines)
            text = text//trim(lines(i))//new_line('a')
        end do
    end function help_text

    !> Completes grid and global size for a number of writers.
    subroutine plan_array(choice, writers, error)
        type(options), intent(inout) :: choice
        integer(int64), intent(in) :: writers
        character(:), allocatable, intent(out) :: error

        integer(int64) :: shape(3)
        logical :: grid_fits, weak

        error = ''
        weak = all(choice%local_size > 0)
        ! Blocks of equal extents have equal surface: the grid is then to be near a cube.
        shape = merge([writers, writers, writers], choice%global_size, weak)
        if (all(choice%grid == 0)) choice%grid = automatic_grid(writers, shape)
        if (all(choice%grid == 0)) then
            error = 'more writers ('//decimal(writers)//') than any grid over '// &
                extents(choice%global_size)//' elements can use'
            return
        end if
        grid_fits = fits_in_int64(choice%grid)      ! .and. need not stop at the first operand
        if (grid_fits) grid_fits = product(choice%grid) == writers
        if (.not. grid_fits) then
            error = '--grid '//extents(choice%grid)//' does not multiply to '//decimal(writers)// &
                ' writers'
            return
        end if
        if (weak) choice%global_size = choice%local_size*choice%grid
        if (any(choice%grid > choice%global_size)) then
            error = '--grid '//extents(choice%grid)//' has more writers than the '// &
                extents(choice%global_size)//' elements along a dimension'
        else if (any(choice%global_size + 2*choice%halo > max_extent)) then
            error = 'an extent of '//extents(choice%global_size)//' with its halo is above 2^31 - 1'
        else if (.not. fits_in_int64([choice%global_size + 2*choice%halo*choice%grid, &
                int(element_bytes, int64)])) then
            error = extents(choice%global_size)//' elements are more bytes than 2^63 - 1'
        end if
    end subroutine plan_array

end module benchio_options
