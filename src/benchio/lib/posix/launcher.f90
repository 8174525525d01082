!> The MPI of this process, and the launcher that has started it, as variables tell of it.
!>
!> Started by another MPI's launcher, each rank is alone in its own MPI: every one would write all
!> files, and the one result.
module benchio_launcher
    use, intrinsic :: iso_fortran_env, only: compiler_version
    use mpi_f08, only: MPI_Comm, MPI_Comm_size, MPI_Get_library_version, &
        MPI_MAX_LIBRARY_VERSION_STRING, MPI_SUBARRAYS_SUPPORTED
    use benchio_text, only: decimal, one_line
    implicit none (type, external)
    private

    public :: is_first_process, launcher_objection, library_objection, look_at_place, mpi_version

    !> A variable in which a launcher says how many ranks it has started, or which one this is.
    type :: launcher_variable
        character(20) :: name
        character(32) :: launcher
        logical :: is_mpi = .true.          !! its mpirun, which may itself run in a step of srun
    end type launcher_variable

    type(launcher_variable), parameter :: sizes(*) = [ &
        launcher_variable('OMPI_COMM_WORLD_SIZE', 'mpirun of Open MPI'), &
        launcher_variable('PMI_SIZE', 'mpirun of MPICH or Intel MPI'), &
        launcher_variable('MV2_COMM_WORLD_SIZE', 'mpirun of MVAPICH'), &
        launcher_variable('JSM_NAMESPACE_SIZE', 'jsrun'), &
        ! Those of an allocation, as SLURM_NTASKS, say nothing of a process in it.
        launcher_variable('SLURM_STEP_NUM_TASKS', 'srun', .false.), &
        launcher_variable('FLUX_JOB_SIZE', 'flux run', .false.)]

    !> The same of the ranks of one node alone.
    type(launcher_variable), parameter :: local_sizes(*) = [ &
        launcher_variable('MPI_LOCALNRANKS', 'mpirun of MPICH or Intel MPI'), &
        launcher_variable('PALS_LOCAL_SIZE', 'the PALS of HPE')]

    !> Which one, from 0, a process is of those that a launcher has started.
    type(launcher_variable), parameter :: places(*) = [ &
        launcher_variable('OMPI_COMM_WORLD_RANK', 'mpirun of Open MPI'), &
        launcher_variable('PMIX_RANK', 'a launcher with PMIx'), &
        launcher_variable('PMI_RANK', 'mpirun of MPICH or Intel MPI'), &
        launcher_variable('PALS_RANKID', 'the PALS of HPE'), &
        launcher_variable('ALPS_APP_PE', 'aprun'), &
        launcher_variable('SLURM_PROCID', 'srun')]
    !> As they were before MPI began: without a launcher, Open MPI itself says that it is the first.
    integer :: places_at_start(size(places)) = -1

contains

    !> Names the MPI library and its version. MPICH adds how it was configured, in further lines,
    !> and Open MPI who has packaged it.
    function mpi_version() result(text)
        character(:), allocatable :: text

        character(MPI_MAX_LIBRARY_VERSION_STRING) :: buffer
        integer :: i, length

        call MPI_Get_library_version(buffer, length)
        buffer = buffer(:scan(buffer(:length)//',', ','//new_line('a')//char(0)) - 1)
        buffer = one_line(buffer)
        text = ''
        do i = 1, len_trim(buffer)
            if (buffer(i:min(i + 1, len(buffer))) /= '') text = text//buffer(i:i)
        end do
    end function mpi_version

    !> Says that benchio cannot call the library that is loaded; empty: for all that is known it
    !> can.
    !> Intel MPI takes the place of MPICH, but not the array descriptors of gfortran.
    function library_objection() result(text)
        character(:), allocatable :: text

        text = mpi_version()
        if (MPI_SUBARRAYS_SUPPORTED .and. index(text, 'Intel(R) MPI') > 0 &
            .and. index(compiler_version(), 'GCC') == 1) then
            text = text//' is loaded, and cannot be called by what gfortran built with the ' &
                //'mpi_f08 of MPICH: load MPICH, or build benchio with Intel''s compiler and MPI'
        else
            text = ''
        end if
    end function library_objection

    !> Says that another MPI's launcher has started this process; empty: none has. Where there are
    !> several the one inside counts, and of two MPIs' launchers the one that is right. A world of
    !> more ranks than a launcher names is of another launcher, or of several of its steps.
    function launcher_objection(comm) result(text)
        type(MPI_Comm), intent(in) :: comm          !! all ranks
        character(:), allocatable :: text

        integer :: at, i, number, ranks
        logical :: is_of_mpi

        text = ''
        at = 0
        is_of_mpi = .false.
        call MPI_Comm_size(comm, ranks)
        do i = 1, size(sizes)
            number = number_in(sizes(i)%name)
            if (number < ranks .or. (is_of_mpi .and. .not. sizes(i)%is_mpi)) cycle
            if (number == ranks) return
            if (at == 0) at = i
            is_of_mpi = is_of_mpi .or. sizes(i)%is_mpi
        end do
        if (at > 0) then
            text = said_by(sizes(at), number_in(sizes(at)%name))
        else
            do i = 1, size(local_sizes)
                number = number_in(local_sizes(i)%name)
                if (number > ranks) text = said_by(local_sizes(i), number)
            end do
            do i = 1, size(places)
                if (places_at_start(i) >= ranks) text = said_by(places(i), places_at_start(i))
            end do
        end if
        if (text /= '') text = text//' started it, and its MPI, '//mpi_version()//', has a world ' &
            //'of '//decimal(ranks)//': start it by the launcher of that MPI, or by srun with ' &
            //'the --mpi that it takes'
    end function launcher_objection

    !> Names a launcher, with what it says.
    function said_by(variable, number) result(text)
        type(launcher_variable), intent(in) :: variable
        integer, intent(in) :: number
        character(:), allocatable :: text

        text = trim(variable%launcher)//' ('//trim(variable%name)//'='//decimal(number)//')'
    end function said_by

    !> Returns the number that a variable of the environment has; -1 where it has none.
    integer function number_in(name)
        character(*), intent(in) :: name

        character(16) :: text
        integer :: status

        number_in = -1
        call get_environment_variable(trim(name), text, status=status)
        if (status == 0) read (text, *, iostat=status) number_in
        if (status /= 0) number_in = -1
    end function number_in

    !> Notes which of the processes that a launcher has started this one is. Before MPI begins.
    subroutine look_at_place()
        integer :: i

        do i = 1, size(places)
            places_at_start(i) = number_in(places(i)%name)
        end do
    end subroutine look_at_place

    !> Says whether this is the first of these processes; without a launcher it is the only one.
    logical function is_first_process()
        is_first_process = all(places_at_start <= 0)
    end function is_first_process

end module benchio_launcher
