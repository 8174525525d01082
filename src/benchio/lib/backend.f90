!> The abstract backend: a library that writes and reads an array in one file.
!>
!> Extend it once per library, in one file, and name it in the registry. A write calls create,
!> define, select, write, sync, close; a read open, select, read, close; each on every rank of the
!> communicator that shares the file. Select and what follows it may be repeated for other parts of
!> the array. A procedure that fails records the failure and returns; the caller makes the ranks
!> agree before the next call. But not before a select, which follows define at once: it makes all
!> its collective calls on a rank that failed, too.
module benchio_backend
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08, only: MPI_Comm
    use benchio_decomposition, only: decomposition
    use benchio_failure, only: failure
    use benchio_settings, only: hint, io_settings
    implicit none (type, external)
    private

    type, abstract, public :: backend
        character(:), allocatable :: name       !! as given to --backend
        character(:), allocatable :: extension  !! of its files, without the dot
        real(real64) :: pack_seconds = 0        !! spent on copying, by backends that must
    contains
        procedure(open_file), deferred :: create        !! a new file, never an old one
        procedure(step), deferred :: define             !! what the file says of the array
        procedure(select_part), deferred :: select      !! this rank's part, in file and memory
        procedure(write_field), deferred :: write       !! that part, without halo
        procedure(step), deferred :: sync               !! data to stable storage
        procedure(step), deferred :: close
        procedure(open_file), deferred :: open          !! an existing file, for reading
        procedure(read_field), deferred :: read         !! that part, without touching the halo
        procedure :: echoed_hints                       !! what MPI-IO repeats; never evidence
        procedure :: observed_collective                !! what the last transfer really was
    end type backend

    abstract interface
        subroutine open_file(self, path, global, comm, settings, error)
            import :: backend, failure, int64, MPI_Comm, io_settings
            class(backend), intent(inout) :: self
            character(*), intent(in) :: path
            integer(int64), intent(in) :: global(3)     !! extents of the array in the file
            type(MPI_Comm), intent(in) :: comm          !! the ranks that share the file
            type(io_settings), intent(in) :: settings
            type(failure), intent(inout) :: error
        end subroutine open_file

        subroutine step(self, error)
            import :: backend, failure
            class(backend), intent(inout) :: self
            type(failure), intent(inout) :: error
        end subroutine step

        subroutine select_part(self, block, error)
            import :: backend, decomposition, failure
            class(backend), intent(inout) :: self
            type(decomposition), intent(in) :: block
            type(failure), intent(inout) :: error
        end subroutine select_part

        subroutine write_field(self, field, error)
            import :: backend, failure, real64
            class(backend), intent(inout) :: self
            real(real64), intent(in), contiguous, target :: field(:, :, :)  !! with halo
            type(failure), intent(inout) :: error
        end subroutine write_field

        subroutine read_field(self, field, error)
            import :: backend, failure, real64
            class(backend), intent(inout) :: self
            real(real64), intent(inout), contiguous, target :: field(:, :, :)   !! with halo
            type(failure), intent(inout) :: error
        end subroutine read_field
    end interface

contains

    !> Hints that the open file repeats; none where the library does not give its file.
    function echoed_hints(self) result(hints)
        class(backend), intent(in) :: self
        type(hint), allocatable :: hints(:)

        associate (unused => self)
        end associate
        allocate (hints(0))
    end function echoed_hints

    !> The library's own word on the last transfer; empty where it has none.
    function observed_collective(self) result(text)
        class(backend), intent(in) :: self
        character(:), allocatable :: text

        associate (unused => self)
        end associate
        text = ''
    end function observed_collective

end module benchio_backend
