!> The launcher that has started this process, as variables tell of it.
!>
!> Started by another MPI's launcher, each rank is alone in its own MPI: every one would write all
!> files, and the one result.
module benchio_launcher
    use mpi_f08, only: MPI_Comm, MPI_Comm_size, MPI_Get_library_version, &
        MPI_MAX_LIBRARY_VERSION_STRING
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: is_first_process, launcher_objection

    !> A variable in which a launcher says how many ranks it has started.
    type :: size_variable
        character(20) :: name
        character(32) :: launcher
        logical :: is_mpi = .true.          !! its mpirun, which may itself run in a step of srun
    end type size_variable

    type(size_variable), parameter :: sizes(*) = [ &
        size_variable('OMPI_COMM_WORLD_SIZE', 'mpirun of Open MPI'), &
        size_variable('PMI_SIZE', 'mpirun of MPICH or Intel MPI'), &
        size_variable('MV2_COMM_WORLD_SIZE', 'mpirun of MVAPICH'), &
        size_variable('JSM_NAMESPACE_SIZE', 'jsrun'), &
        ! Those of an allocation, as SLURM_NTASKS, say nothing of a process in it.
        size_variable('SLURM_STEP_NUM_TASKS', 'srun', .false.), &
        size_variable('FLUX_JOB_SIZE', 'flux run', .false.)]

    !> The same of the ranks of one node alone.
    type(size_variable), parameter :: local_sizes(*) = [ &
        size_variable('MPI_LOCALNRANKS', 'mpirun of MPICH or Intel MPI'), &
        size_variable('PALS_LOCAL_SIZE', 'the PALS of HPE')]

contains

    !> Says that another MPI's launcher has started this process; empty: none has. Where there are
    !> several the one inside counts, and of two MPIs' launchers the one that is right.
    function launcher_objection(comm) result(text)
        type(MPI_Comm), intent(in) :: comm          !! all ranks
        character(:), allocatable :: text

        character(MPI_MAX_LIBRARY_VERSION_STRING) :: version
        integer :: at, i, length, number, ranks
        logical :: is_of_mpi

        text = ''
        at = 0
        is_of_mpi = .false.
        call MPI_Comm_size(comm, ranks)
        do i = 1, size(sizes)
            number = number_in(sizes(i)%name)
            if (number < 1 .or. (is_of_mpi .and. .not. sizes(i)%is_mpi)) cycle
            if (number == ranks) return
            if (at == 0) at = i
            is_of_mpi = is_of_mpi .or. sizes(i)%is_mpi
        end do
        call MPI_Get_library_version(version, length)
        version = version(:scan(version(:length)//',', ','//new_line('a')//achar(9)) - 1)
        if (at > 0) then
            text = said_by(sizes(at))
        else
            do i = 1, size(local_sizes)
                if (number_in(local_sizes(i)%name) > ranks) text = said_by(local_sizes(i))
            end do
        end if
        if (text /= '') text = text//' started it, and its MPI, '//trim(version)//', has a world ' &
            //'of '//decimal(ranks)//': start it by the launcher of that MPI, or by srun with ' &
            //'the --mpi that it takes'
    end function launcher_objection

    !> Names a launcher, with what it says.
    function said_by(variable) result(text)
        type(size_variable), intent(in) :: variable
        character(:), allocatable :: text

        text = trim(variable%launcher)//' ('//trim(variable%name)//'=' &
            //decimal(number_in(variable%name))//')'
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

    !> Says whether this is the first of the processes that a launcher has started; without a
    !> launcher it is the only one.
    logical function is_first_process()
        character(*), parameter :: ranks(5) = [character(20) :: 'OMPI_COMM_WORLD_RANK', &
            'PMIX_RANK', 'PMI_RANK', 'SLURM_PROCID', 'ALPS_APP_PE']
        integer :: i

        is_first_process = all([(number_in(ranks(i)) <= 0, i=1, size(ranks))])
    end function is_first_process

end module benchio_launcher
