"""What a bench needs beside boards and faults: a broker, a gateway, what they are seen by."""
