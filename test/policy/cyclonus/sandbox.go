package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// controlLimit ends a run on a machine that does nothing at all any more.
const controlLimit = 30 * time.Second

// How many connections to itself a pod makes, how many times longer than the slowest of them it waits on, and how long at most.
const (
	controls = 3
	patience = 50
	maxMore  = 600 * time.Millisecond
)

// Sandbox opens sockets in a pod's network namespace: by a thread that stays in it, because setns(2) is a matter of threads.
type Sandbox struct {
	work    chan func()
	closers []func() error
}

// Dial is one connection to try, and the pod that must answer it.
type Dial struct {
	Protocol v1.Protocol
	Address  string
	Name     string
}

func newSandbox(path string) (*Sandbox, error) {
	sandbox := &Sandbox{work: make(chan func())}
	entered := make(chan error)
	go func() {
		// Never unlocked: the thread ends with this goroutine.
		runtime.LockOSThread()
		err := enter(path)
		entered <- err
		if err == nil {
			for work := range sandbox.work {
				work()
			}
		}
	}()
	return sandbox, <-entered
}

func enter(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer unix.Close(fd)
	return unix.Setns(fd, unix.CLONE_NEWNET)
}

func (s *Sandbox) inside(work func()) {
	done := make(chan struct{})
	s.work <- func() {
		defer close(done)
		work()
	}
	<-done
}

// listen answers everybody with the pod's name, by both families.
func (s *Sandbox) listen(port v1.ContainerPort, name string) error {
	var err error
	address := fmt.Sprintf("[::]:%d", port.ContainerPort)
	s.inside(func() {
		if port.Protocol == v1.ProtocolUDP {
			var socket net.PacketConn
			if socket, err = net.ListenPacket("udp", address); err == nil {
				s.closers = append(s.closers, socket.Close)
				go answerDatagrams(socket, name)
			}
			return
		}
		var listener net.Listener
		if listener, err = net.Listen("tcp", address); err == nil {
			s.closers = append(s.closers, listener.Close)
			go answerConnections(listener, name)
		}
	})
	return err
}

func answerDatagrams(socket net.PacketConn, name string) {
	buffer := make([]byte, 64)
	for {
		_, from, err := socket.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_, _ = socket.WriteTo([]byte(name), from)
		}
	}
}

func answerConnections(listener net.Listener, name string) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = connection.Write([]byte(name))
		_ = connection.Close()
	}
}

func (s *Sandbox) close() {
	for _, closer := range s.closers {
		_ = closer()
	}
	close(s.work)
}

// dial tries all at once. A dial is blocked when nothing has come back after the timeout and after some connections of the pod to itself;
// where these are slow, the machine is, and the answers get more time. No packet is sent twice: the kernel repeats a SYN after a second.
//
// It returns a problem for each dial, "" for none.
func (s *Sandbox) dial(dials []Dial, timeout time.Duration) ([]string, error) {
	problems := make([]string, len(dials))
	var err error
	s.inside(func() {
		sockets := openAll(dials, problems)
		defer closeAll(sockets)
		awaitAnswers(dials, sockets, problems, time.Now().Add(timeout))
		var slow time.Duration
		for i := 0; i < controls && err == nil; i++ {
			begun := time.Now()
			err = control()
			slow = max(slow, time.Since(begun))
		}
		awaitAnswers(dials, sockets, problems, time.Now().Add(min(patience*slow, maxMore)))
	})
	return problems, err
}

// openAll returns the sockets, -1 where connecting has failed already.
func openAll(dials []Dial, problems []string) []int {
	sockets := make([]int, len(dials))
	for i, dial := range dials {
		fd, err := open(dial)
		sockets[i] = fd
		problems[i] = "no answer"
		if err != nil {
			problems[i] = err.Error()
		}
	}
	return sockets
}

func open(dial Dial) (int, error) {
	to, err := netip.ParseAddrPort(dial.Address)
	if err != nil {
		return -1, err
	}
	domain, address := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()})
	if to.Addr().Is4() {
		domain, address = unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	kind := unix.SOCK_STREAM
	if dial.Protocol == v1.ProtocolUDP {
		kind = unix.SOCK_DGRAM
	}
	fd, err := unix.Socket(domain, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = unix.Connect(fd, address)
	if err == nil && kind == unix.SOCK_DGRAM {
		_, err = unix.Write(fd, []byte("?"))
	}
	if err != nil && err != unix.EINPROGRESS {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// awaitAnswers reads what comes until everything is answered or the time is over; an answered socket is closed and becomes -1.
func awaitAnswers(dials []Dial, sockets []int, problems []string, deadline time.Time) {
	for {
		var polled []unix.PollFd
		var indices []int
		for i, fd := range sockets {
			if fd >= 0 {
				polled = append(polled, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
				indices = append(indices, i)
			}
		}
		left := max(0, time.Until(deadline))
		if len(polled) == 0 {
			return
		}
		count, err := unix.Poll(polled, int(left.Milliseconds()))
		if err != nil && err != unix.EINTR {
			return
		}
		if count == 0 && left == 0 {
			return
		}
		for at, one := range polled {
			if one.Revents != 0 {
				i := indices[at]
				problems[i] = read(sockets[i], dials[i].Name)
				unix.Close(sockets[i])
				sockets[i] = -1
			}
		}
	}
}

func read(fd int, name string) string {
	buffer := make([]byte, 256)
	count, err := unix.Read(fd, buffer)
	if err != nil {
		return err.Error()
	}
	if answer := string(buffer[:count]); answer != name {
		// No policy does this: a route or an address is wrong.
		panic(fmt.Sprintf("%q has answered instead of %q", answer, name))
	}
	return ""
}

// control connects to the pod's own first port.
func control() error {
	connection, err := net.DialTimeout("tcp", "127.0.0.1:80", controlLimit)
	if err != nil {
		return err
	}
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(controlLimit))
	_, err = connection.Read(make([]byte, 1))
	return err
}

func closeAll(sockets []int) {
	for _, fd := range sockets {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
