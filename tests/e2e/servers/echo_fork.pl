# A server that forks for each connection, on the port of its first argument: answers each line with its MD5. Ends on SIGTERM,
# when its children have ended.
use strict;
use warnings;
use Digest::MD5 qw(md5_hex);
use IO::Socket::INET;
use POSIX ":sys_wait_h";

my $ended = 0;
$SIG{TERM} = sub { $ended = 1 };
$SIG{CHLD} = sub { 1 while waitpid(-1, WNOHANG) > 0 };
my $listener = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $ARGV[0], Listen => 64, ReuseAddr => 1, Timeout => 1) or die "listen: $!";
until ($ended) {
  my $client = $listener->accept or next;
  my $pid = fork // die "fork: $!";
  if (!$pid) {
    close $listener;
    $SIG{CHLD} = "DEFAULT";
    $client->autoflush(1);
    while (my $line = <$client>) { print $client md5_hex($line), "\n" }
    exit 0;
  }
  close $client;
}
$SIG{CHLD} = "DEFAULT";
1 while waitpid(-1, 0) > 0;
print "ended\n";
