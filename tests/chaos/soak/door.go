package main

import (
	"context"
	"io"
	"net"
	"sync"
)

// door is a way to the broker that can be shut: what is open is cut then, and
// nobody gets through. It keeps a real agent away.
type door struct {
	to     string
	listen net.Listener
	all    sync.WaitGroup

	mu   sync.Mutex
	shut bool
	open map[net.Conn]bool
}

func newDoor(ctx context.Context, to string) (*door, error) {
	listen, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &door{to: to, listen: listen, open: map[net.Conn]bool{}}
	d.all.Go(func() { d.accept(context.WithoutCancel(ctx)) })
	return d, nil
}

func (d *door) addr() string { return d.listen.Addr().String() }

func (d *door) accept(ctx context.Context) {
	for {
		near, err := d.listen.Accept()
		if err != nil {
			return
		}
		d.all.Go(func() { d.pass(ctx, near) })
	}
}

func (d *door) pass(ctx context.Context, near net.Conn) {
	defer near.Close()
	if !d.take(near) {
		return
	}
	defer d.leave(near)
	far, err := new(net.Dialer).DialContext(ctx, "tcp", d.to)
	if err != nil {
		return
	}
	defer far.Close()
	if !d.take(far) {
		return
	}
	defer d.leave(far)
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(far, near); near.Close(); far.Close() }) // an end of either ends both
	both.Go(func() { _, _ = io.Copy(near, far); near.Close(); far.Close() })
	both.Wait()
}

func (d *door) take(c net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.shut {
		d.open[c] = true
	}
	return !d.shut
}

func (d *door) leave(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, c)
}

func (d *door) set(shut bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = shut
	for c := range d.open {
		if shut {
			c.Close()
		}
	}
}

func (d *door) close() {
	d.listen.Close()
	d.set(true)
	d.all.Wait()
}
