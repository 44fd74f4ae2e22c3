"""Mutation testing of the pure packages: which places may break without a test failing?"""
