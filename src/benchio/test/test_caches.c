/* Caches below a filesystem, by trees of /sys as they were recorded, cut to what counts. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "benchio.h"
#include "expect.h"

/* device NUMBER FOLDER; partition NUMBER FOLDER/PART; slave FOLDER OF; each in the tree's devices. */
static const char *const recorded =
    "device() { mkdir -p \"devices/$2/slaves\"; echo \"$1\" >\"devices/$2/dev\"; "
    "ln -s \"../../devices/$2\" \"dev/block/$1\"; }\n"
    "partition() { device \"$1\" \"$2\"; echo 1 >\"devices/$2/partition\"; }\n"
    "slave() { ln -s \"$PWD/devices/$2\" \"devices/$1/slaves/${2##*/}\"; }\n"
    "behind() { mkdir \"devices/$1/loop\"; echo \"$2\" >\"devices/$1/loop/dio\"; "
    "echo \"$3\" >\"devices/$1/loop/backing_file\"; }\n"
    "cd \"$0\" && mkdir -p dev/block devices fs/btrfs/u-u-i-d/devices || exit 1\n"
    "device 254:0 pci0000:00/virtio1/block/vda\n"
    "partition 254:1 pci0000:00/virtio1/block/vda/vda1\n"
    "device 259:0 pci0000:00/nvme/nvme0/nvme0n1; echo pcie >devices/pci0000:00/nvme/nvme0/transport\n"
    "device 259:1 virtual/nvme-fabrics/ctl/nvme1/nvme1n1\n"
    "echo tcp >devices/virtual/nvme-fabrics/ctl/nvme1/transport\n"
    "device 259:2 virtual/nvme-subsystem/nvme-subsys2/nvme2n1\n"
    "mkdir devices/virtual/nvme-subsystem/nvme-subsys2/nvme2\n"
    "echo rdma >devices/virtual/nvme-subsystem/nvme-subsys2/nvme2/transport\n"
    "device 7:0 virtual/block/loop0; behind virtual/block/loop0 0 /image\n"
    "device 7:1 virtual/block/loop1; behind virtual/block/loop1 1 /gone/image\n"
    "device 7:2 virtual/block/loop2; behind virtual/block/loop2 1 /\n"
    "device 7:3 virtual/block/loop3; behind virtual/block/loop3 1 /dev/shm\n"
    "partition 259:8 virtual/block/loop0/loop0p1\n"
    "device 253:0 virtual/block/dm-0; slave virtual/block/dm-0 virtual/block/loop0\n"
    "device 253:1 virtual/block/dm-1; slave virtual/block/dm-1 pci0000:00/virtio1/block/vda/vda1\n"
    "device 253:2 virtual/block/dm-2; slave virtual/block/dm-2 virtual/block/dm-1\n"
    "slave virtual/block/dm-2 virtual/block/dm-0\n"
    "device 9:127 virtual/block/md127; slave virtual/block/md127 pci0000:00/nvme/nvme0/nvme0n1\n"
    "device 43:0 virtual/block/nbd0\n"
    "partition 43:1 virtual/block/nbd0/nbd0p1\n"
    "device 252:0 rbd/0/block/rbd0\n"
    "device 147:0 virtual/block/drbd0; slave virtual/block/drbd0 pci0000:00/virtio1/block/vda\n"
    "device 230:0 virtual/block/zd0\n"
    "device 251:0 virtual/block/zram0\n"
    "device 1:0 virtual/block/ram0\n"
    "device 249:0 virtual/block/ublkb0\n"
    "device 8:16 platform/host3/session1/target3:0:0/3:0:0:1/block/sdb\n"
    "partition 8:17 platform/host3/session1/target3:0:0/3:0:0:1/block/sdb/sdb1\n"
    "device 8:0 pci0000:00/ata1/host0/target0:0:0/0:0:0:0/block/sda\n"
    "ln -s \"$PWD/devices/virtual/block/loop0\" fs/btrfs/u-u-i-d/devices/loop0\n";

/* Numbers, and whether what is read from them may come from a memory. */
static const struct {
    const char *device, *name;
    int caches;
} devices[] = {
    {"254:0", "a virtual disk", 0},
    {"254:1", "a partition of it", 0},
    {"259:0", "NVMe", 0},
    {"259:1", "NVMe by a network", 1},
    {"259:2", "the same by several paths", 1},
    {"8:0", "SATA", 0},
    {"7:0", "a loop device", 1},
    {"259:8", "a partition of it", 1},
    {"7:1", "a loop device by direct I/O, of a file that cannot be seen", 1},
    {"7:2", "a loop device by direct I/O", 0},
    {"7:3", "the same of a file in memory", 1},
    {"253:0", "device mapper over a loop device", 1},
    {"253:1", "device mapper over a partition", 0},
    {"253:2", "device mapper over these two", 1},
    {"9:127", "RAID", 0},
    {"43:0", "nbd", 1},
    {"43:1", "a partition of it", 1},
    {"252:0", "rbd", 1},
    {"147:0", "drbd", 1},
    {"230:0", "a volume of ZFS", 1},
    {"251:0", "compressed memory", 1},
    {"1:0", "memory", 1},
    {"249:0", "a device in user space", 1},
    {"8:16", "iSCSI", 1},
    {"8:17", "a partition of it", 1},
    {"0:42", "no device", 0},
};

static const struct {
    const char *name;
    int64_t type;
    int has;
} filesystems[] = {{"ext4", 0xef53, 0},       {"XFS", 0x58465342, 0},  {"Lustre", 0x0bd00bd0, 0},
                   {"NFS", 0x6969, 0},        {"CephFS", 0xc36400, 0}, {"FUSE", 0x65735546, 1},
                   {"GPFS", 0x47504653, 1},   {"ZFS", 0x2fc12fc1, 1},  {"PanFS", 0xaad7aaea, 1},
                   {"one that is new", 7, 1}, {"tmpfs", 0x01021994, 0}};

int main(void)
{
    char sys[] = "/tmp/benchio-sys.XXXXXX", command[8192];

    expect(mkdtemp(sys) != NULL, "a folder");
    snprintf(command, sizeof command, "bash -ec '%s' %s", recorded, sys);
    expect(system(command) == 0, "a tree");
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        expect(benchio_device_caches(sys, devices[i].device) == devices[i].caches, devices[i].name);
    expect(benchio_btrfs_caches(sys, "u-u-i-d") && !benchio_btrfs_caches(sys, "other"), "Btrfs");
    for (size_t i = 0; i < sizeof filesystems / sizeof filesystems[0]; i++)
        expect(benchio_has_own_cache(filesystems[i].type) == filesystems[i].has,
               filesystems[i].name);
    snprintf(command, sizeof command, "rm -r %s", sys);
    expect(system(command) == 0, "which goes");
    return 0;
}
