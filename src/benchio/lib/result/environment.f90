!> What a run has around it that changes parallel I/O, and that no option of benchio sets:
!> variables, what stands in files of settings, and the libraries that are loaded.
module benchio_environment
    use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int32_t, c_int64_t, c_null_char
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi_f08, only: MPI_Allreduce, MPI_Bcast, MPI_CHARACTER, MPI_Comm, MPI_Comm_rank, &
        MPI_IN_PLACE, MPI_INT64_T, MPI_INTEGER, MPI_MIN, MPI_Recv, MPI_Send, MPI_STATUS_IGNORE
    use benchio_nodes, only: node_view
    use benchio_posix, only: environment_entry, fortran_text
    use benchio_settings, only: hint
    implicit none (type, external)
    private

    public :: digest, look_around, mpi_io_component

    !> A variable of the job, as the ranks have it.
    type, public :: job_variable
        character(:), allocatable :: name
        logical :: is_telling = .false.             !! it changes I/O, so that its value is shown
        character(:), allocatable :: value          !! of rank 0; not allocated: it is not set
        integer :: other_rank = -1                  !! the first that has another value; -1: none
        character(:), allocatable :: other_value    !! likewise
    end type job_variable

    !> What rank 0 has around it, by name.
    type, public :: surroundings
        type(hint), allocatable :: variables(:)
        type(hint), allocatable :: contents(:)      !! digests of what files of settings hold
        type(hint), allocatable :: libraries(:)     !! paths
        type(job_variable), allocatable :: of_job(:)
        integer :: other_rank = -1                  !! the first on whose node it is otherwise
    end type surroundings

    integer, parameter :: digits = 16               !! hexadecimal, of a digest

    !> Beginnings of variables that change what parallel I/O does.
    character(*), parameter :: telling(*) = [character(15) :: 'OMPI_MCA_', 'PMIX_MCA_', &
        'PRTE_MCA_', 'ROMIO_', 'MPICH_', 'MPIR_CVAR_', 'MPIR_PARAM_', 'I_MPI_', 'MV2_', 'MVP_', &
        'UCX_', 'UCC_', 'FI_', 'PSM', 'HDF5_', 'H5FD_', 'NETCDF_', 'PNETCDF_', 'LUSTRE_', &
        'DARSHAN_', 'LD_PRELOAD', 'LD_LIBRARY_PATH']

    !> Of those, beginnings of what launchers set by themselves, as names, places and numbers of the
    !> run, of its hosts and of their processors.
    character(*), parameter :: of_launcher(*) = [character(32) :: 'OMPI_MCA_orte_', &
        'OMPI_MCA_ess', 'OMPI_MCA_pmix', 'OMPI_MCA_initial_wdir', 'OMPI_MCA_shmem_RUNTIME_QUERY', &
        'OMPI_MCA_mpi_oversubscribe', 'OMPI_MCA_PREFIXES', 'OMPI_MCA_cpu_type', &
        'OMPI_MCA_num_procs', 'OMPI_MCA_num_restarts', 'PMIX_MCA_mca_base_component_show', &
        'PRTE_MCA_prte_', 'PRTE_MCA_ess', 'PRTE_MCA_plm', 'MPIR_CVAR_CH3_INTERFACE_HOSTNAME', &
        'I_MPI_HYDRA_UUID', 'I_MPI_HYDRA_HOST_FILE', 'I_MPI_INFO_', 'I_MPI_MPIRUN', &
        'I_MPI_PIN_INFO', 'I_MPI_PIN_MAPPING', 'I_MPI_INTERNAL_', 'MV2_COMM_WORLD_', &
        'MVP_COMM_WORLD_']

    !> Variables that are others in each job, and stand in values of others: a directory, and
    !> numbers of schedulers.
    character(*), parameter :: of_job(*) = [character(12) :: 'TMPDIR', 'SLURM_JOB_ID', &
        'PBS_JOBID', 'LSB_JOBID', 'JOB_ID', 'COBALT_JOBID', 'FLUX_JOB_ID', 'PALS_APID']

    !> Variables that name directories whose files are settings, or are loaded. Others may name any
    !> place, such as /tmp.
    character(*), parameter :: of_directories(*) = [character(32) :: 'HDF5_PLUGIN_PATH', &
        'FI_PROVIDER_PATH', 'UCX_CONFIG_DIR', 'OMPI_MCA_mca_base_component_path']

    !> Files that no variable need name: below the user's home, of the system, and beside libmpi.
    character(*), parameter :: usual(*) = [character(47) :: '~/.openmpi/mca-params.conf', &
        '~/.pmix/mca-params.conf', '~/.prte/mca-params.conf', '~/ucx.conf', '~/.ncrc', &
        '/etc/openmpi/openmpi-mca-params.conf', '/etc/openmpi/openmpi-mca-params-override.conf', &
        '/etc/ucx/ucx.conf', '&/../etc/openmpi-mca-params.conf', &
        '&/../etc/openmpi-mca-params-override.conf', '&/../etc/prte-mca-params.conf']

    !> Beginnings of the names of libraries and components that move the data.
    character(*), parameter :: moving(*) = [character(12) :: 'libmpi', 'libhdf5', 'libnetcdf', &
        'libpnetcdf', 'libadios2', 'libucp', 'libfabric', 'libpsm2', 'libdarshan', 'mca_io_', &
        'mca_fs_', 'mca_fcoll_']

    interface
        subroutine c_digest(text, size_of_text, number) bind(C, name='benchio_digest')
            import :: c_char, c_int64_t
            character(kind=c_char), intent(in) :: text(*)
            integer(c_int64_t), value :: size_of_text
            character(kind=c_char), intent(out) :: number(*)
        end subroutine c_digest

        integer(c_int) function c_digest_of_file(path, directories, number) &
            bind(C, name='benchio_digest_of_file')
            import :: c_char, c_int, c_int32_t
            character(kind=c_char), intent(in) :: path(*)
            integer(c_int32_t), value :: directories
            character(kind=c_char), intent(out) :: number(*)
        end function c_digest_of_file

        integer(c_int) function c_loaded(beginning, index, path, size_of_path) &
            bind(C, name='benchio_loaded')
            import :: c_char, c_int, c_int32_t
            character(kind=c_char), intent(in) :: beginning(*)
            integer(c_int32_t), value :: index, size_of_path
            character(kind=c_char), intent(out) :: path(*)
        end function c_loaded
    end interface

contains

    !> Looks at what is around all ranks. A value in which the directory of the files stands, or
    !> what is of the job, is another one in each job, and has a name in its place. Collective.
    subroutine look_around(names, directory, nodes, comm, view)
        character(*), intent(in) :: names           !! of variables of the job, comma list
        character(*), intent(in) :: directory
        type(node_view), intent(in) :: nodes
        type(MPI_Comm), intent(in) :: comm          !! all ranks
        type(surroundings), intent(out) :: view     !! complete on rank 0

        integer :: comma, first

        call list_variables(directory, view)
        if (nodes%is_leader) then
            call list_libraries(view%libraries)
            call list_contents(directory, view)
        end if
        view%other_rank = first_other(number_of(view), comm)
        allocate (view%of_job(0))
        first = 1
        do while (first <= len(names))
            comma = first + index(names(first:)//',', ',') - 1
            view%of_job = [view%of_job, compared(names(first:comma - 1), comm)]
            first = comma + 1
        end do
    end subroutine look_around

    !> Returns the first rank that has another number than rank 0; -1 if all have that, or less than
    !> 0, which is none.
    integer function first_other(mine, comm)
        integer(int64), intent(in) :: mine
        type(MPI_Comm), intent(in) :: comm

        integer(int64) :: of_first
        integer :: rank

        of_first = mine
        call MPI_Comm_rank(comm, rank)
        call MPI_Bcast(of_first, 1, MPI_INT64_T, 0, comm)
        first_other = merge(rank, huge(1), mine >= 0 .and. mine /= of_first)
        call MPI_Allreduce(MPI_IN_PLACE, first_other, 1, MPI_INTEGER, MPI_MIN, comm)
        if (first_other == huge(1)) first_other = -1
    end function first_other

    !> Lists the variables of this rank that change parallel I/O.
    subroutine list_variables(directory, view)
        character(*), intent(in) :: directory
        type(surroundings), intent(inout) :: view

        character(:), allocatable :: name, value
        integer :: i

        allocate (view%variables(0))
        i = 0
        do
            name = environment_entry(i)
            if (name == '') exit
            name = name(:index(name, '=') - 1)
            if (begins(name, telling) .and. .not. begins(name, of_launcher)) then
                value = without(directory, value_of(name))
                call append(view%variables, name, value)
            end if
            i = i + 1
        end do
    end subroutine list_variables

    !> Lists the libraries and components that are loaded, by the names of their files.
    subroutine list_libraries(libraries)
        type(hint), allocatable, intent(out) :: libraries(:)

        character(kind=c_char) :: buffer(4096)
        character(:), allocatable :: name, path
        integer :: i, number

        allocate (libraries(0))
        do i = 1, size(moving)
            number = 0
            do while (c_loaded(trim(moving(i))//c_null_char, int(number, c_int32_t), buffer, &
                size(buffer, kind=c_int32_t)) == 1)
                number = number + 1
                path = fortran_text(buffer)
                name = path(index(path, '/', back=.true.) + 1:)
                if (.not. has_key(libraries, name)) call append(libraries, name, path)
            end do
        end do
    end subroutine list_libraries

    !> Returns the component of Open MPI that does MPI-IO; empty where none is loaded, as in another
    !> MPI, or is a part of libmpi. Both may be loaded to choose one, and OMPIO loads its own parts
    !> once it is chosen.
    function mpi_io_component(libraries) result(component)
        type(hint), intent(in) :: libraries(:)
        character(:), allocatable :: component

        integer :: i

        component = ''
        do i = 1, size(libraries)
            associate (name => libraries(i)%key)
                if (index(name, 'mca_io_') == 1 .and. any(component == ['     ', 'ompio'])) then
                    component = name(8:index(name//'.', '.') - 1)
                end if
            end associate
        end do
        do i = 1, size(libraries)
            if (index(libraries(i)%key, 'mca_fcoll_') == 1) component = 'ompio'
        end do
    end function mpi_io_component

    !> Lists digests of what the files hold that variables name, and the usual files of settings.
    subroutine list_contents(directory, view)
        character(*), intent(in) :: directory
        type(surroundings), intent(inout) :: view

        character(:), allocatable :: name, number, path
        integer :: i

        allocate (view%contents(0))
        do i = 1, size(view%variables)
            name = view%variables(i)%key
            if (name == 'LD_LIBRARY_PATH') cycle
            number = digest_of_files(value_of(name), directory, begins(name, of_directories))
            if (number /= '') call append(view%contents, name, number)
        end do
        do i = 1, size(usual)
            path = trim(usual(i))
            if (path(1:1) == '~') path = value_of('HOME')//path(2:)
            if (path(1:1) == '&') path = place_of('libmpi')//path(2:)
            number = digest_of_files(path, directory, .false.)
            if (number /= '') call append(view%contents, trim(usual(i)), number)
        end do

    contains

        !> Returns the directory of a loaded library; empty if it is not there.
        function place_of(beginning) result(place)
            character(*), intent(in) :: beginning
            character(:), allocatable :: place

            integer :: number

            place = ''
            do number = 1, size(view%libraries)
                if (index(view%libraries(number)%key, beginning) /= 1) cycle
                place = view%libraries(number)%value
                place = place(:index(place, '/', back=.true.) - 1)
                return
            end do
        end function place_of

    end subroutine list_contents

    !> Returns the digest of all files that a value names, one after the other; empty if it names
    !> none. Those in the directory of the files are of this run alone.
    function digest_of_files(value, directory, directories) result(number)
        character(*), intent(in) :: value
        character(*), intent(in) :: directory
        logical, intent(in) :: directories          !! files in directories count, too
        character(:), allocatable :: number

        character(kind=c_char) :: buffer(digits + 1)
        character(:), allocatable :: together
        integer :: files, first, length

        files = 0
        together = ''
        first = 1
        do while (first <= len(value))
            length = scan(value(first:)//':', ':,; =') - 1
            associate (name => value(first:first + length - 1))
                if (length > 0 .and. index(name, directory//'/') /= 1) then
                    if (c_digest_of_file(name//c_null_char, merge(1_c_int32_t, 0_c_int32_t, &
                        directories), buffer) == 1) then
                        together = together//fortran_text(buffer)
                        files = files + 1
                    end if
                end if
            end associate
            first = first + length + 1
        end do
        number = together
        if (files > 1) number = digest(together)
    end function digest_of_files

    !> Compares a variable of the job on all ranks. Collective.
    function compared(name, comm) result(variable)
        character(*), intent(in) :: name
        type(MPI_Comm), intent(in) :: comm
        type(job_variable) :: variable

        character(:), allocatable :: text
        integer :: length, rank, status

        variable%name = name
        variable%is_telling = begins(name, telling)
        text = ''
        call get_environment_variable(name, length=length, status=status)
        if (status /= 1) then
            text = '='//value_of(name)
            variable%value = text(2:)
            if (.not. variable%is_telling) variable%value = 'sha256:'//digest(text(2:))
        end if
        variable%other_rank = first_other(number_of_text(text), comm)
        if (variable%other_rank < 0) return
        call MPI_Comm_rank(comm, rank)
        length = -1
        if (rank == variable%other_rank) then
            if (allocated(variable%value)) length = len(variable%value)
            call MPI_Send(length, 1, MPI_INTEGER, 0, 0, comm)
            if (length > 0) call MPI_Send(variable%value, length, MPI_CHARACTER, 0, 0, comm)
        else if (rank == 0) then
            call MPI_Recv(length, 1, MPI_INTEGER, variable%other_rank, 0, comm, MPI_STATUS_IGNORE)
            if (length >= 0) allocate (character(length) :: variable%other_value)
            if (length > 0) call MPI_Recv(variable%other_value, length, MPI_CHARACTER, &
                variable%other_rank, 0, comm, MPI_STATUS_IGNORE)
        end if
    end function compared

    !> Returns the value of a variable; empty if it is not set.
    function value_of(name) result(value)
        character(*), intent(in) :: name
        character(:), allocatable :: value

        integer :: length, status

        call get_environment_variable(name, length=length, status=status)
        allocate (character(merge(0, length, status == 1)) :: value)
        if (len(value) > 0) call get_environment_variable(name, value)
    end function value_of

    !> Returns a value with a name in the place of what is another in each job.
    function without(directory, value) result(text)
        character(*), intent(in) :: directory, value
        character(:), allocatable :: text

        integer :: i

        text = value
        if (len(directory) > 1) call put_in_place(directory, '--dir')
        do i = 1, size(of_job)
            ! A shorter one, such as /tmp, or job 12, may stand there by chance.
            if (len(value_of(trim(of_job(i)))) >= 5) call put_in_place( &
                value_of(trim(of_job(i))), '$'//trim(of_job(i)))
        end do

    contains

        !> Replaces the first place of `old` that is no part of a longer number.
        subroutine put_in_place(old, new)
            character(*), intent(in) :: old, new

            integer :: at, next

            at = index(text, old)
            next = at + len(old)
            if (at == 0 .or. scan(text(max(1, at - 1):at - 1)//text(next:min(next, len(text))), &
                '0123456789') > 0) return
            text = text(:at - 1)//new//text(next:)
        end subroutine put_in_place

    end function without

    !> Returns the beginning of the SHA-256 of a text.
    function digest(text) result(number)
        character(*), intent(in) :: text
        character(digits) :: number

        character(kind=c_char) :: buffer(digits + 1)

        call c_digest(text, len(text, kind=c_int64_t), buffer)
        number = fortran_text(buffer)
    end function digest

    !> Returns a number of a text that hardly another text has; not less than 0.
    integer(int64) function number_of_text(text) result(number)
        character(*), intent(in) :: text

        character(digits) :: hexadecimal

        hexadecimal = digest(text)
        read (hexadecimal(:digits - 1), '(z15)') number
    end function number_of_text

    !> Likewise of all that is around a rank.
    integer(int64) function number_of(view) result(number)
        type(surroundings), intent(in) :: view

        character(:), allocatable :: text
        type(hint), allocatable :: every(:)
        integer :: i

        number = -1
        if (.not. allocated(view%libraries)) return
        text = ''
        every = [view%variables, view%contents, view%libraries]
        do i = 1, size(every)
            text = text//every(i)%key//'='//every(i)%value//new_line('a')
        end do
        number = number_of_text(text)
    end function number_of

    pure logical function begins(name, beginnings)
        character(*), intent(in) :: name, beginnings(:)

        integer :: i

        begins = any([(index(name, trim(beginnings(i))) == 1, i=1, size(beginnings))])
    end function begins

    pure logical function has_key(list, key)
        type(hint), intent(in) :: list(:)
        character(*), intent(in) :: key

        integer :: i

        has_key = any([(list(i)%key == key, i=1, size(list))])
    end function has_key

    subroutine append(list, key, value)
        type(hint), allocatable, intent(inout) :: list(:)
        character(*), intent(in) :: key, value

        list = [list, hint(key, value)]
    end subroutine append

end module benchio_environment
